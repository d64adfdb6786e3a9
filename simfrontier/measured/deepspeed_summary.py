"""Reading the dictionary that DeepSpeed's `log_summary(return_dict=True)` gives, saved as JSON: exact bytes and times.

Format: deepspeedai/DeepSpeed, deepspeed/utils/comms_logging.py (log_all): `summary`, `straggler_analysis` and
`metadata`, by operation and bytes. Times are means of this rank's calls without the outermost tenths, in milliseconds.
With `show_straggler=True` there are the means of the least over the ranks, too: these are taken where they are.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simfrontier.io import Node, json_of, text_of
from simfrontier.measured.calls_of_ranks import CallsOfRanks, What
from simfrontier.measured.deepspeed_ops import LEFT_OUT, kind_of_op, whole_bytes
from simfrontier.measured.reading import Reading
from simfrontier.measured.setup import Setup

TITLE: Final = "summary of DeepSpeed's communication"


def read_deepspeed_summary(path: Path, setup: Setup) -> Reading:
    """The calls of a summary; the devices come from the setup, else they are all ranks of the job. Raises InputError:
    one line that names file, key and fault."""
    where = str(path)
    top = Node(json_of(text_of(path, TITLE), where, TITLE), where)
    told = setup.devices is not None
    devices = setup.devices_of(where) if told else top.member("metadata").member("world_size").whole(2)
    calls = CallsOfRanks()
    analysis = top.optional("straggler_analysis")
    least = analysis if analysis is not None and analysis.value is not None else None
    table, time = (least, "avg_comm_lat_ms") if least is not None else (top.member("summary"), "avg_latency_ms")
    for op, sizes in table.members().items():
        kind = kind_of_op(op)
        for size in sizes.members().values():
            count = size.member("count").whole(1)
            num_bytes = size.member("msg_size_bytes").whole(0)
            seconds = size.member(time).amount("milliseconds") / 1e3
            if kind is None:
                calls.leave_out(f"{op}, {LEFT_OUT}", count)
            elif num_bytes == 0 or seconds == 0.0:
                calls.leave_out("no bytes or no time", count)
            else:
                whole = whole_bytes(kind, num_bytes, devices)
                what = What(kind=kind, devices=devices, nodes=setup.nodes, num_bytes=whole)
                calls.add(size.at, what, seconds)
    return calls.reading([path], setup)
