"""Logs of the NCCL Inspector: one file of JSON lines per rank, with one line for each collective that it timed.

Format: NVIDIA/nccl, plugins/profiler/inspector (before: ext-profiler/inspector), inspector_json.cc and inspector.cc,
output format v4.0 to v4.3. `coll_exec_time_us` is the time of the kernel's slowest channel on this rank, in whole
microseconds. `coll_msg_size_bytes` is the count argument of the call times the size of its data type: one rank's part
for an all-gather and a reduce-scatter (inspectorComputeOpBw multiplies both by the number of ranks), the vector for an
all-reduce and a broadcast. `coll_sn` counts the calls of one kind on one communicator. Lines of `p2p_perf`,
`dump_stats` and of proxies are not collectives.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from annotated_types import Ge
from pydantic import Field

from simfrontier.base.errors import InputError
from simfrontier.base.io import External, NotNegative, json_of, reading, typed
from simfrontier.inputs.measured.reading import Call, CallsOfRanks, Format, Reading, Setup, json_with
from simfrontier.inputs.measured.rows import CallKind

TITLE: Final = "log of NCCL's Inspector"
KINDS: Final[dict[str, CallKind]] = {
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllReduce": "all_reduce",
    "Broadcast": "broadcast",
}
PER_RANK: Final = ("all_gather", "reduce_scatter")  # sizes are of one rank's part: ranks times that is the message


class _Metadata(External):
    inspector_output_format_version: Annotated[str, Field(pattern=r"^v4(\.[0-9]+)?$")]


class _Header(External):
    id: str
    n_ranks: Annotated[int, Ge(1)]
    nnodes: Annotated[int, Ge(1)]


class _Perf(External):
    coll: str
    coll_sn: Annotated[int, Ge(0)]
    coll_msg_size_bytes: Annotated[int, Ge(0)]
    coll_exec_time_us: NotNegative  # plugins derived from NCCL's write fractions


class _Line(External):
    metadata: _Metadata
    header: _Header | None = None
    coll_perf: _Perf | None = None


def read_inspector(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the logs of some or all ranks of a job. Raises InputError."""
    calls = CallsOfRanks()
    for path in files:
        with reading(path, TITLE), path.open("rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    _read_line(calls, line, f"{path} line {number}")
    return calls.reading(files, setup).with_missing_ranks()


def _read_line(calls: CallsOfRanks, text: bytes, where: str) -> None:
    try:
        line = typed(json_of(text.decode(errors="replace").strip(), where, TITLE), _Line, where)
    except InputError:
        if text.endswith((b"\n", b"}")):
            raise
        calls.leave_out("a last line that is cut short")  # as where a job was killed
        return
    if line.header is None or line.coll_perf is None:
        return
    perf, ranks, nodes = line.coll_perf, line.header.n_ranks, line.header.nnodes
    if ranks % nodes:
        calls.leave_out("ranks that are unevenly spread over nodes")
        return
    kind = KINDS.get(perf.coll)
    call = Call(kind, ranks, nodes, perf.coll_msg_size_bytes * (ranks if kind in PER_RANK else 1))
    calls.add((line.header.id, kind, perf.coll_sn), perf.coll, call, perf.coll_exec_time_us / 1e6)


FORMAT: Final = Format(
    name="inspector",
    title="logs of NCCL's Inspector",
    recognises=json_with(r'"inspector_output_format_version"\s*:'),
    read=read_inspector,
    per_rank=True,
)
