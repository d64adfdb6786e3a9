"""Reading dumps of PyTorch's flight recorder: for each rank a pickle, or the same as JSON, of its last collectives.

Format: pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp, versions 2.x. A
dump has an entry for each call, with the shapes of what goes in and out; `duration_ms` (a float of 32 bits) is there
only where TORCH_NCCL_ENABLE_TIMING=1 was set, and of calls that the watchdog has seen to their end. Calls are numbered
by process group (`collective_seq_id`, `op_id`). `pg_config` lists the ranks of the groups.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final, Never

from simfrontier.errors import InputError, shown
from simfrontier.io import Node, json_of, reading
from simfrontier.limits import FILE, RANK_VALUES, SIZE
from simfrontier.measured.calls_of_ranks import CallsOfRanks, What
from simfrontier.measured.reading import Reading
from simfrontier.measured.rows import CallKind
from simfrontier.measured.setup import Setup

TITLE: Final = "dump of PyTorch's flight recorder"
BYTES: Final = frozenset(pickle.BINBYTES + pickle.SHORT_BINBYTES + pickle.BINBYTES8 + pickle.BYTEARRAY8)  # opcodes
PICKLES: Final = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))  # how protocols 2 to 5 start
# Names that ProcessGroupNCCL gives its calls, and the side that is the whole message.
KINDS: Final[dict[str, tuple[CallKind, str]]] = {
    "all_gather": ("all_gather", "output"),
    "_all_gather_base": ("all_gather", "output"),
    "reduce_scatter": ("reduce_scatter", "input"),
    "_reduce_scatter_base": ("reduce_scatter", "input"),
    "all_reduce": ("all_reduce", "input"),
    "all_to_all": ("all_to_all", "input"),
    "broadcast": ("broadcast", "input"),
    "_broadcast_oop": ("broadcast", "input"),
}
DONE: Final = "completed"
STATES: Final = (DONE, "scheduled", "started")
# Bytes of an element, by the names of c10::toString(ScalarType).
ELEMENT: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz"), 1),
    **dict.fromkeys(("Short", "UInt16", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "UInt32", "Float", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "UInt64", "Double", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
_VERSION: Final = re.compile(r"2\.[0-9]{1,4}")
_NAME: Final = re.compile(r"(?:[a-z]{1,20}:)?(\w{1,100})( .{1,100})?")
_RANKS: Final = re.compile(r"\[ ?\d{1,9}(, ?\d{1,9})* ?\]")


def read_flight_recorder(paths: Sequence[Path], setup: Setup) -> Reading:
    """The calls of the dumps of some or all ranks; the size of a group that no dump tells comes from the setup. Raises
    InputError: one line that names file, key and fault."""
    calls, untimed, ranks_of = CallsOfRanks(), 0, Counter[Hashable]()
    for path in paths:
        untimed += _read_dump(calls, ranks_of, Node(_document(path), str(path)), setup)
    calls.refuse_repeats(ranks_of)
    if untimed and calls.is_empty:
        raise InputError(
            f"{paths[0]}: {untimed:,} calls, and no duration of any; allowed: dumps of a job with "
            "TORCH_NCCL_ENABLE_TIMING=1"
        )
    return calls.reading(paths, setup).with_missing_ranks()


class _PlainValues(pickle._Unpickler):
    """Unpickler of numbers, texts, lists, tuples and tables: a pickle is a program, and this one may call nothing.

    It is Python's own and not the one in C, which allocates as many places as a damaged index says. Bytes are no values
    of a dump.
    """

    dispatch: ClassVar = {code: read for code, read in pickle._Unpickler.dispatch.items() if code not in BYTES}

    def find_class(self, module: str, name: str) -> Never:
        """Refuse every class and function that the pickle names."""
        raise pickle.UnpicklingError(f"names {module}.{name}; allowed: plain values alone")


def _document(path: Path) -> Any:
    """The value of a dump, a pickle or JSON. Raises InputError."""
    try:
        with reading(path, TITLE):
            data = FILE.read(path)
        text = _json_of_pickle(data) if data.startswith(PICKLES) else data.decode()
    except ValueError as error:  # too large, not UTF-8, or a pickle of something else
        raise InputError(f"not a {TITLE}: {error}", where=str(path)) from None
    return json_of(text, str(path), TITLE)


def _json_of_pickle(data: bytes) -> str:
    """A pickle of plain values as JSON. Raises ValueError for any other."""
    try:
        value = _PlainValues(io.BytesIO(data)).load()
        _refuse_many(value)
        return json.dumps(value)
    except Exception as error:  # a damaged pickle may raise any
        raise ValueError(f"not a whole pickle of plain values: {error}") from None


def _refuse_many(value: Any) -> None:
    """Raise ValueError for too many values, written out: one that is stored once may stand in many places."""
    left, count = [value], 1
    while left:
        each = left.pop()
        if isinstance(each, dict):
            each = [*each.keys(), *each.values()]
        if not isinstance(each, list | tuple):
            continue
        left += each
        count += len(each)
        if fault := RANK_VALUES.fault(count):
            raise ValueError(fault)


def _read_dump(calls: CallsOfRanks, ranks_of: Counter[Hashable], top: Node, setup: Setup) -> int:
    """Add the calls of a dump, and to `ranks_of` that a rank tells of them; how many are without a duration."""
    version = top.member("version")
    if not _VERSION.fullmatch(version.text()):
        version.wrong("2.0 or another 2")
    groups = _groups(top.member("pg_config"))
    entries = top.optional("entries")  # torch leaves out an empty list
    if entries is None:
        return 0
    return sum(_read_entry(calls, ranks_of, entry, groups, setup) for entry in entries.items())


def _groups(config: Node) -> dict[str, int]:
    """The number of ranks of every process group, by its name."""
    sizes = {}
    for name, group in config.members().items():
        ranks = group.member("ranks").text()
        if not _RANKS.fullmatch(ranks):
            group.key("ranks").wrong('ranks, e.g. "[0, 1, 2, 3]"')
        sizes[name] = ranks.count(",") + 1
    return sizes


def _read_entry(
    calls: CallsOfRanks, ranks_of: Counter[Hashable], entry: Node, groups: dict[str, int], setup: Setup
) -> int:
    """Add a call, or count why not; 1 where it has no duration."""
    named = _kind(entry.member("profiling_name"))
    if named is None or entry.member("is_p2p").flag():
        calls.leave_out("barriers, single messages and others of which no times are taken")
        return 0
    kind, side = named
    state, duration = entry.member("state").choice(STATES), entry.optional("duration_ms")
    if state != DONE:
        calls.leave_out(f"not finished, or not known to be ({state})")
        return int(duration is None)
    if duration is None or duration.value is None:
        calls.leave_out("no duration")
        return 1
    group = _texts(entry.member("process_group"))
    if group[0] not in groups and setup.devices is None:
        calls.leave_out("of a group whose ranks no dump tells (--devices N says how many they are)")
        return 0
    if untyped := _untyped(entry, side):
        calls.leave_out(f"of elements of {shown(untyped)}, whose bytes are not known")
        return 0
    devices = groups[group[0]] if group[0] in groups else setup.devices_of(entry.where)
    seconds, num_bytes = duration.amount("milliseconds") / 1e3, _num_bytes(entry, side)
    if devices < 2 or num_bytes == 0 or seconds == 0.0:
        calls.leave_out("of one rank, or without bytes or time")
        return 0
    key = (*group, *(entry.member(name).whole(0) for name in ("collective_seq_id", "op_id")))
    ranks_of[key] += 1
    calls.add(key, What(kind=kind, devices=devices, nodes=setup.nodes, num_bytes=num_bytes), seconds)
    return 0


def _kind(name: Node) -> tuple[CallKind, str] | None:
    """The kind and its whole side; None for what is no collective of ours."""
    match = _NAME.fullmatch(name.text())
    return KINDS.get(match[1]) if match else None


def _texts(group: Node) -> tuple[str, str]:
    """Name and description of a process group."""
    name, description = group.items(2)
    return name.text(), description.text()


def _untyped(entry: Node, side: str) -> str:
    """A type of numbers on one side of a call that is not known; empty where all are."""
    return next((name for dtype in entry.member(f"{side}_dtypes").items() if (name := dtype.text()) not in ELEMENT), "")


def _num_bytes(entry: Node, side: str) -> int:
    """Bytes of all tensors of one side of a call. Raises InputError."""
    sizes, dtypes = entry.member(f"{side}_sizes"), entry.member(f"{side}_dtypes")
    total = sum(
        ELEMENT[dtype.text()] * math.prod(dim.whole(0) for dim in shape.items())
        for shape, dtype in zip(sizes.items(), dtypes.items(len(sizes.items())), strict=True)
    )
    sizes.within(SIZE, total)
    return total
