"""Reading logs of NCCL's Inspector: for each rank a file of JSON lines, one for each collective that it has timed.

Format: NVIDIA/nccl, plugins/profiler/inspector (before: ext-profiler/inspector), inspector_json.cc and inspector.cc,
output format v4.0 to v4.3. `coll_exec_time_us` are whole microseconds: of the slowest channel of the kernel on this
rank. `coll_msg_size_bytes` is the count that the call was given times the size of its type: one rank's part for an
all-gather and a reduce-scatter (inspectorComputeOpBw multiplies both by the ranks), the vector for an all-reduce and a
broadcast. `coll_sn` counts the calls of one kind on one communicator. Lines of `p2p_perf`, `dump_stats` and of proxies
are no collectives.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier.io import Node, json_of, reading
from simfrontier.limits import RANKS, SIZE
from simfrontier.measured.calls_of_ranks import CallsOfRanks, What
from simfrontier.measured.reading import Reading
from simfrontier.measured.rows import CallKind
from simfrontier.measured.setup import Setup

TITLE: Final = "log of NCCL's Inspector"
KINDS: Final[dict[str, CallKind]] = {
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllReduce": "all_reduce",
    "Broadcast": "broadcast",
}
PER_RANK: Final = ("all_gather", "reduce_scatter")  # sizes are of one rank's part: ranks times that is the message
_VERSION: Final = re.compile(r"v4(\.[0-9]{1,4})?")


def read_inspector(paths: Sequence[Path], setup: Setup) -> Reading:
    """The calls of the logs of some or all ranks. Raises InputError: one line that names file, line and fault."""
    calls = CallsOfRanks()
    for path in paths:
        for line in _lines(path):
            if line is None:
                calls.leave_out("a last line that is cut short")
            else:
                _read_line(calls, line)
    return calls.reading(paths, setup).with_missing_ranks()


def _lines(path: Path) -> Iterator[Node | None]:
    """The object of every line that is not empty; None for a last line that is cut short, as where a job was killed."""
    with reading(path, TITLE), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            where = f"{path} line {number}"
            if not line.strip():
                continue
            try:
                yield Node(json_of(line.decode(errors="replace").strip(), where, TITLE), where)
            except InputError as error:  # its line is the only one of that text
                if line.endswith((b"\n", b"}")) or number == 1:
                    raise InputError(error.what.removeprefix("line 1 "), where=where) from None
                yield None


def _read_line(calls: CallsOfRanks, line: Node) -> None:
    version = line.member("metadata").member("inspector_output_format_version")
    if not _VERSION.fullmatch(version.text()):
        version.wrong("v4.0 or another v4")
    perf = line.optional("coll_perf")
    if perf is None:
        return
    header = line.member("header")
    name = perf.member("coll")
    kind = KINDS.get(name.text())
    if kind is None:
        calls.leave_out(f"{name.value}, of which no times are taken")
        return
    ranks, nodes = header.member("n_ranks").whole(1, RANKS.most), header.member("nnodes").whole(1, RANKS.most)
    size = perf.member("coll_msg_size_bytes").whole(0, SIZE.most)
    micros = perf.member("coll_exec_time_us").amount("microseconds")  # plugins derived from NCCL's write fractions
    if size == 0 or micros == 0.0:
        calls.leave_out("no bytes, or less than a microsecond")
    elif ranks < 2:
        calls.leave_out("of one rank")
    elif ranks % nodes:
        calls.leave_out("ranks that are unevenly spread over nodes")
    else:
        key = header.member("id").name(), kind, perf.member("coll_sn").whole(0)
        num_bytes = size * ranks if kind in PER_RANK else size
        calls.add(key, What(kind=kind, devices=ranks, nodes=nodes, num_bytes=num_bytes), micros / 1e6)
