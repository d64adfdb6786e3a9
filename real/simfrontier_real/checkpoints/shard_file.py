"""The file of one rank: the layout of safetensors, so that other programs read it without running anything.

    8 bytes            length of the header, a little-endian whole number
    header             JSON: by the name of each entry {dtype, shape, data_offsets}, and __metadata__, texts by name
    data               the entries' numbers one after the other, little-endian

`__metadata__` holds the key `parts`: JSON, by the name of each entry which part of which logical tensor it is.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from simfrontier.errors import InputError
from simfrontier.io import json_of, typed
from simfrontier.limits import FILE
from simfrontier_real.checkpoints.parts import BITS, Part

LENGTH_BYTES: Final = 8
TITLE: Final = "file of a checkpoint"


@dataclass(frozen=True, slots=True)
class Key:
    """A logical tensor: what of it (weight, master, optimizer, state, constant, copy), whose it is, and the layer."""

    role: str
    name: str
    layer: int

    def __str__(self) -> str:
        return f"{self.role} of {self.name}, layer {self.layer}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A part of a tensor in a file: its type in the file, how many lines of the part's length there are (2 of an
    optimizer: the first and the second moments), and where its bytes begin."""

    key: Key
    dtype: str
    lines: int
    part: Part
    offset: int = 0

    @property
    def num_elements(self) -> int:
        return self.lines * self.part.num_elements

    @property
    def num_bytes(self) -> int:
        return self.num_elements * int(BITS[self.dtype][-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Where:
    """An entry in the key `parts`."""

    role: str
    tensor: str
    layer: int
    lines: int
    block: tuple[tuple[int, int], ...]
    digits: tuple[tuple[int, int | None], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """An entry in the header."""

    dtype: str
    shape: tuple[int, ...]
    data_offsets: tuple[int, int]


def shard_bytes(entries: Sequence[tuple[Entry, bytes]], about: Mapping[str, str]) -> bytes:
    """The content of a file of these entries, with texts about it in its header."""
    header: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    at = 0
    for entry, content in entries:
        assert len(content) == entry.num_bytes, f"{entry.key}: {len(content)} bytes of {entry.num_bytes}"
        name = f"{entry.key.role}/{entry.key.name}/{entry.key.layer}"
        count = entry.part.num_elements
        shape = [count] if entry.lines == 1 else [entry.lines, count]
        header[name] = {"dtype": entry.dtype, "shape": shape, "data_offsets": [at, at + len(content)]}
        key, part = entry.key, entry.part
        where = _Where(
            role=key.role,
            tensor=key.name,
            layer=key.layer,
            lines=entry.lines,
            block=part.block,
            digits=part.digits,
        )
        parts[name] = asdict(where)
        at += len(content)
    metadata = {**about, "parts": json.dumps(parts, separators=(",", ":"))}
    text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % LENGTH_BYTES)  # so that numbers begin at a multiple of their size
    return b"".join([len(text).to_bytes(LENGTH_BYTES, "little"), text, *(content for _, content in entries)])


def entries_of(content: bytes, where: str) -> list[Entry]:
    """The entries of a file, with the places of their bytes in it. Raises InputError for what is none."""
    length = int.from_bytes(content[:LENGTH_BYTES], "little")
    begin = LENGTH_BYTES + length
    if len(content) < LENGTH_BYTES or length > FILE.most_bytes or len(content) < begin:
        raise InputError(f"has {len(content):,} bytes, less than its header", where=where)
    try:
        text = content[LENGTH_BYTES:begin].decode()
    except UnicodeDecodeError:
        raise InputError(f"not a {TITLE}: its header is not UTF-8", where=where) from None
    header = typed(json_of(text, where, TITLE), dict[str, dict[str, Any]], where)
    about = typed(header.pop("__metadata__", {}), dict[str, str], where, ("__metadata__",))
    parts = typed(json_of(about.get("parts", "{}"), where, TITLE), dict[str, _Where], where, ("parts",))
    forms = typed(header, dict[str, _Form], where)
    out: list[Entry] = []
    for name, form in forms.items():
        if name not in parts or form.dtype not in BITS:
            raise InputError("an entry of no known type or part", where=where, key=(name,))
        of = parts[name]
        entry = Entry(
            key=Key(of.role, of.tensor, of.layer),
            dtype=form.dtype,
            lines=of.lines,
            part=Part(of.block, of.digits),
            offset=begin + form.data_offsets[0],
        )
        ends = form.data_offsets[1] - form.data_offsets[0], begin + form.data_offsets[1]
        if not _is_sane(entry.part) or entry.num_elements != math.prod(form.shape) or ends[0] != entry.num_bytes:
            raise InputError("its size is not that of its part", where=where, key=(name,))
        if form.data_offsets[0] < 0 or ends[1] > len(content):
            raise InputError("lies outside the file", where=where, key=(name,))
        out.append(entry)
    return out


def _is_sane(part: Part) -> bool:
    blocks = all(0 <= first < end for first, end in part.block)
    return blocks and all(size > 0 and (fixed is None or 0 <= fixed < size) for size, fixed in part.digits)
