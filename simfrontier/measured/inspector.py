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
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier.io import Node
from simfrontier.limits import RANKS, SIZE
from simfrontier.measured.calls_of_ranks import CallsOfRanks, What
from simfrontier.measured.jsonlines import objects_of
from simfrontier.measured.rows import CallKind

TITLE: Final = "log of NCCL's Inspector"
KINDS: Final[dict[str, CallKind]] = {
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "AllReduce": "all_reduce",
    "Broadcast": "broadcast",
}
PER_RANK: Final = ("all_gather", "reduce_scatter")  # sizes are of one rank's part: ranks times that is the message
_VERSION: Final = re.compile(r"v4(\.[0-9]{1,4})?")


def read_inspector(paths: Sequence[Path]) -> CallsOfRanks:
    """The calls of the logs of some or all ranks. Raises InputError: one line that names file, line and fault."""
    calls = CallsOfRanks()
    for path in paths:
        for line in objects_of(path, TITLE):
            if line is None:
                calls.leave_out("a last line that is cut short")
            else:
                _read_line(calls, line)
    return calls


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
    size, micros = perf.member("coll_msg_size_bytes").whole(0, SIZE.most), _micros(perf.member("coll_exec_time_us"))
    if size == 0 or micros == 0.0:
        calls.leave_out("no bytes, or less than a microsecond")
    elif ranks < 2:
        calls.leave_out("of one rank")
    elif ranks % nodes:
        calls.leave_out("ranks that are unevenly spread over nodes")
    else:
        key = header.member("id").name(), kind, perf.member("coll_sn").whole(0)
        num_bytes = size * ranks if kind in PER_RANK else size
        try:
            calls.add(key, What(kind=kind, devices=ranks, nodes=nodes, num_bytes=num_bytes), micros / 1e6)
        except InputError as error:
            raise error.within(line.where) from None


def _micros(time: Node) -> float:
    """Whole microseconds as NCCL writes them; plugins derived from it write fractions."""
    value = time.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.0 <= value <= 1e12:
        time.wrong("microseconds, 0 or more")
    return float(value)
