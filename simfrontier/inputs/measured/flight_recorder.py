"""Dumps of PyTorch's flight recorder: one pickle or JSON file per rank with the rank's last collective calls.

Format: pytorch/pytorch, torch/csrc/distributed/c10d/FlightRecorder.hpp and FlightRecorderDetail.hpp, versions 2.x. A
dump has one entry per call, with the shapes of the call's inputs and outputs; `duration_ms` (32-bit float) is present
only if TORCH_NCCL_ENABLE_TIMING=1 was set, and only for calls that the watchdog saw end. Calls are numbered by process
group (`collective_seq_id`, `op_id`). `pg_config` lists the ranks of the groups.
"""

from __future__ import annotations

import io
import json
import math
import pickle
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Never

from annotated_types import Ge
from pydantic import Field

from simfrontier.base.errors import InputError, shown
from simfrontier.base.io import External, NotNegative, json_of, reading, typed
from simfrontier.base.limits import FILE
from simfrontier.inputs.measured.reading import Call, CallsOfRanks, FileStart, Format, Reading, Setup, json_with
from simfrontier.inputs.measured.rows import CallKind

TITLE: Final = "dump of PyTorch's flight recorder"
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
# Bytes of an element, by the names of c10::toString(ScalarType).
ELEMENT: Final = {
    **dict.fromkeys(("Byte", "Char", "Bool", "Float8_e4m3fn", "Float8_e5m2", "Float8_e4m3fnuz", "Float8_e5m2fnuz"), 1),
    **dict.fromkeys(("Short", "UInt16", "Half", "BFloat16"), 2),
    **dict.fromkeys(("Int", "UInt32", "Float", "ComplexHalf"), 4),
    **dict.fromkeys(("Long", "UInt64", "Double", "ComplexFloat"), 8),
    "ComplexDouble": 16,
}
_NAME: Final = re.compile(r"(?:[a-z]{1,20}:)?(\w{1,100})( .{1,100})?")
_Sizes = tuple[tuple[Annotated[int, Ge(0)], ...], ...]


class _Group(External):
    ranks: Annotated[str, Field(pattern=r"^\[[\d, ]+\]$")]


class _Entry(External):
    profiling_name: str
    is_p2p: bool
    state: str
    process_group: tuple[str, str]
    collective_seq_id: int
    op_id: int
    input_sizes: _Sizes
    input_dtypes: tuple[str, ...]
    output_sizes: _Sizes
    output_dtypes: tuple[str, ...]
    duration_ms: NotNegative | None = None

    @property
    def what(self) -> tuple[CallKind, str] | None:
        """Kind of the collective call, and the side (input or output) whose tensors are the whole message; None if the
        entry is not a supported collective."""
        match = _NAME.fullmatch(self.profiling_name)
        return KINDS.get(match[1]) if match and not self.is_p2p else None

    def tensors(self, side: str) -> tuple[_Sizes, tuple[str, ...]]:
        """Return shapes and data types of the tensors of one side, `input` or `output`."""
        return (self.input_sizes, self.input_dtypes) if side == "input" else (self.output_sizes, self.output_dtypes)


class _Dump(External):
    version: Annotated[str, Field(pattern=r"^2\.[0-9]+$")]
    pg_config: dict[str, _Group]
    entries: tuple[_Entry, ...] = ()  # torch leaves out an empty list


def read_flight_recorder(files: Sequence[Path], setup: Setup) -> Reading:
    """Read the dumps of some or all ranks of a job; if no dump lists the ranks of a group, the group's size comes from
    the setup. Raises InputError."""
    calls, untimed = CallsOfRanks(), 0
    for path in files:
        dump = typed(_document(path), _Dump, str(path))
        sizes = {name: group.ranks.count(",") + 1 for name, group in dump.pg_config.items()}
        untimed += sum(entry.what is not None and entry.duration_ms is None for entry in dump.entries)
        for entry in dump.entries:
            _add(calls, entry, sizes, setup)
    if untimed and not calls.calls:
        raise InputError(
            f"{files[0]}: {untimed:,} calls, and no duration of any; allowed: dumps of a job with "
            "TORCH_NCCL_ENABLE_TIMING=1"
        )
    return calls.reading(files, setup).with_missing_ranks()


class _PlainValues(pickle.Unpickler):
    """Unpickler for numbers, strings, lists, tuples and dicts only: a pickle is a program, and this unpickler lets it
    call nothing."""

    def find_class(self, module: str, name: str) -> Never:
        """Refuse every class and function that the pickle names."""
        raise pickle.UnpicklingError(f"names {module}.{name}; allowed: plain values alone")


def _document(path: Path) -> Any:
    """Return the contents of a dump file, pickle or JSON. Raises InputError."""
    try:
        with reading(path, TITLE):
            data = FILE.read(path)
        text = json.dumps(_PlainValues(io.BytesIO(data)).load()) if data.startswith(PICKLES) else data.decode()
    except InputError:
        raise
    except Exception as error:  # too large, not UTF-8, and whatever a damaged pickle raises
        raise InputError(f"not a {TITLE}: {error}", where=str(path)) from None
    return json_of(text, str(path), TITLE)


def _add(calls: CallsOfRanks, entry: _Entry, sizes: Mapping[str, int], setup: Setup) -> None:
    """Add the call of an entry, or count why it is left out."""
    if entry.what is None:
        calls.leave_out("barriers, single messages and others of which no times are taken")
        return
    kind, side = entry.what
    shapes, dtypes = entry.tensors(side)
    devices = sizes.get(entry.process_group[0], setup.devices)
    if entry.state != DONE:
        calls.leave_out(f"not finished, or not known to be ({entry.state})")
    elif entry.duration_ms is None:
        calls.leave_out("no duration")
    elif devices is None:
        calls.leave_out("of a group whose ranks no dump lists (--devices N says how many they are)")
    elif unknown := next((dtype for dtype in dtypes if dtype not in ELEMENT), ""):
        calls.leave_out(f"of elements of {shown(unknown)}, whose bytes are not known")
    else:
        num_bytes = sum(ELEMENT[dtype] * math.prod(shape) for shape, dtype in zip(shapes, dtypes, strict=False))
        key = (*entry.process_group, entry.collective_seq_id, entry.op_id)
        calls.add(key, kind, Call(kind, devices, setup.nodes, num_bytes), entry.duration_ms / 1e3)


_is_json: Final = json_with(r'"(collective_seq_id|pg_config|pg_status)"\s*:')


def _recognises(start: FileStart) -> bool:
    return start.head.startswith(PICKLES) or _is_json(start)


FORMAT: Final = Format(
    name="flight-recorder",
    title="dumps of PyTorch's flight recorder",
    recognises=_recognises,
    read=read_flight_recorder,
    per_rank=True,
)
