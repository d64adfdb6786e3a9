"""Dictionary of DeepSpeed's `log_summary(return_dict=True)`, saved as JSON: exact bytes and times.

Format: deepspeedai/DeepSpeed, deepspeed/utils/comms_logging.py (log_all): `summary`, `straggler_analysis` and
`metadata`, by operation and bytes. Times are means of this rank's calls without the outermost tenths, in milliseconds.
With `show_straggler=True` there are the means of the least over the ranks, too: these are taken where they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge

from simfrontier.base.io import External, NotNegative, read_json, typed
from simfrontier.inputs.measured.calls_of_ranks import CallsOfRanks, What
from simfrontier.inputs.measured.deepspeed_ops import LEFT_OUT, kind_of_op, whole_bytes
from simfrontier.inputs.measured.format import FileStart, Format
from simfrontier.inputs.measured.reading import Reading, Setup

TITLE: Final = "summary of DeepSpeed's communication"
_KEY: Final = re.compile(r'"tput_avg_gbps"\s*:')


class _Calls(External):
    count: Annotated[int, Ge(1)]
    msg_size_bytes: Annotated[int, Ge(0)]


class _Means(_Calls):
    avg_latency_ms: NotNegative

    @property
    def milliseconds(self) -> float:
        return self.avg_latency_ms


class _Least(_Calls):
    avg_comm_lat_ms: NotNegative

    @property
    def milliseconds(self) -> float:
        return self.avg_comm_lat_ms


class _Metadata(External):
    world_size: Annotated[int, Ge(2)]


class _Summary(External):
    summary: dict[str, dict[str, _Means]]
    straggler_analysis: dict[str, dict[str, _Least]] | None = None
    metadata: _Metadata


def read_deepspeed_summary(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the calls of a summary; the devices come from the setup, else they are all ranks of the job. Raises
    InputError."""
    where = str(files[0])
    top = typed(read_json(files[0], TITLE), _Summary, where)
    devices = top.metadata.world_size if setup.devices is None else setup.devices_of(where)
    calls = CallsOfRanks()
    for op, sizes in (top.straggler_analysis or top.summary).items():
        kind = kind_of_op(op)
        for key, size in sizes.items():
            if kind is None:
                calls.leave_out(f"{op}, {LEFT_OUT}", size.count)
            elif size.msg_size_bytes == 0 or size.milliseconds == 0.0:
                calls.leave_out("no bytes or no time", size.count)
            else:
                whole = whole_bytes(kind, size.msg_size_bytes, devices)
                what = What(kind=kind, devices=devices, nodes=setup.nodes, num_bytes=whole)
                calls.add((op, key), what, size.milliseconds / 1e3)
    return calls.reading(files, setup)


def _recognises(start: FileStart) -> bool:
    return start.is_json and _KEY.search(start.text) is not None


FORMAT: Final = Format(
    name="deepspeed-summary",
    title="summaries of DeepSpeed's communication (JSON)",
    recognises=_recognises,
    read=read_deepspeed_summary,
)
