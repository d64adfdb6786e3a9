"""The states of one rank as entries of a file, and a rank's buffers out of the files of a checkpoint."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.schedule import Ref, SavedState, Schedule, Tensor, is_writer, saved_states
from simfrontier_real.arrays import Array
from simfrontier_real.checkpoints.manifest import LogicalTensor
from simfrontier_real.checkpoints.parts import BITS, TYPES, Part, part_of, taken, whole_of
from simfrontier_real.checkpoints.shard_file import Entry, Key
from simfrontier_real.codecs.encoded import Encoded, octets
from simfrontier_real.initial_states import placed_copy
from simfrontier_real.rank_context import RankContext

RAW = "U8"  # the type of what is encoded


def key_of(tensor: Tensor, layer: int) -> Key:
    """By what a state is known to every plan of a model: masters and moments by their weight. Copies are a plan's."""
    named = tensor.weight if tensor.role in ("master", "optimizer") else tensor.name
    assert named is not None, f"{tensor.name} is of no weight"
    return Key(tensor.role, named, layer)


def logical_tensors(states: Iterable[SavedState]) -> tuple[LogicalTensor, ...]:
    """The tensors that every plan of a model saves, sorted by name."""
    layers: dict[tuple[str, str], set[int]] = {}
    like: dict[tuple[str, str], Tensor] = {}
    for state in states:
        if state.tensor.role != "copy":
            key = key_of(state.tensor, state.layer)
            layers.setdefault((key.role, key.name), set()).add(key.layer)
            like[key.role, key.name] = state.tensor
    return tuple(
        LogicalTensor(
            role=role,
            name=name,
            layers=len(layers[role, name]),
            dtype=TYPES[like[role, name].dtype],
            shape=like[role, name].shape,
        )
        for role, name in sorted(layers)
    )


def held_states(context: RankContext) -> list[SavedState]:
    """The states that a rank holds, of those that a checkpoint has."""
    touched = context.touched
    return [each for each in saved_states(context.schedule) if Ref(each.tensor.name, each.layer) in touched]


def entries_of_rank(context: RankContext) -> list[tuple[Entry, bytes]]:
    """What a rank writes."""
    return [_entry(context, state) for state in held_states(context) if is_writer(context.schedule, state, context.at)]


def _entry(context: RankContext, state: SavedState) -> tuple[Entry, bytes]:
    tensor = state.tensor
    held, key = context.buffers[Ref(tensor.name, state.layer)], key_of(tensor, state.layer)
    part = part_of(tensor, context.schedule.mesh, context.at)
    if isinstance(held, Encoded):
        content = b"".join(octets(each).tobytes() for each in held.parts)
        return Entry(key=key, dtype=RAW, lines=1, part=Part(((0, len(content)),))), content
    lines = 2 if tensor.role == "optimizer" else 1
    return Entry(key=key, dtype=TYPES[tensor.dtype], lines=lines, part=part), octets(held).tobytes()


class Source(Protocol):
    """Where parts come from: `found` are the entries of a tensor with the ranks that wrote them, `read` the bytes of
    one of them."""

    def found(self, key: Key) -> Sequence[tuple[int, Entry]]: ...

    def read(self, rank: int, entry: Entry) -> bytes: ...


class Shards:
    """The entries of all files of a checkpoint, which are read where they are asked for."""

    def __init__(self, files: Mapping[int, tuple[Path, Sequence[Entry]]]) -> None:
        self._paths = {rank: path for rank, (path, _) in files.items()}
        self._found: dict[Key, list[tuple[int, Entry]]] = {}
        for rank in sorted(files):
            for entry in files[rank][1]:
                self._found.setdefault(entry.key, []).append((rank, entry))

    def found(self, key: Key) -> Sequence[tuple[int, Entry]]:
        """The entries of a tensor, with the ranks that wrote them."""
        return self._found.get(key, ())

    def read(self, rank: int, entry: Entry) -> bytes:
        """The bytes of an entry. Raises InputError where they can no longer be read."""
        path = self._paths[rank]
        try:
            with path.open("rb") as opened:
                opened.seek(entry.offset)
                content = opened.read(entry.num_bytes)
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror}", where=str(path)) from None
        if len(content) < entry.num_bytes:
            raise InputError("is cut short while it is read", where=str(path))
        return content


def restore(context: RankContext, source: Source) -> None:
    """Put a rank's part of every state into its buffers, out of the parts of a checkpoint, whoever wrote them. Buffers
    are those that training starts from; copies that no file has as this rank holds them are made from the weights.
    Raises SimfrontierError where some of a state is missing."""
    copies = []
    for state in held_states(context):
        ref = Ref(state.tensor.name, state.layer)
        key, part = key_of(state.tensor, state.layer), part_of(state.tensor, context.schedule.mesh, context.at)
        like = context.buffers[ref]
        content = _same(context, source, key, like, part)
        if content is None and state.tensor.role == "copy":
            copies.append((state.tensor, ref))
            continue
        if content is None:
            content = _cut(source, key, state.tensor, part)
        context.buffers[ref] = _filled(context, like, content)
    for tensor, ref in copies:
        assert tensor.weight is not None, f"{tensor.name} is of no weight"
        weight = context.schedule.tensors[tensor.weight]
        values = _numbers(_lines(source, key_of(weight, ref.layer), weight)[0], TYPES[weight.dtype])
        context.buffers[ref] = placed_copy(context, tensor, values)


def _same(context: RankContext, source: Source, key: Key, like: Array | Encoded, part: Part) -> bytes | None:
    """The bytes of a part that a file has as it is: of this rank's own file where it is there."""
    size = sum(each.nbytes for each in like.parts) if isinstance(like, Encoded) else like.nbytes
    wanted = Part(((0, size),)) if isinstance(like, Encoded) else part
    found = [(rank, entry) for rank, entry in source.found(key) if entry.part == wanted and entry.num_bytes == size]
    if isinstance(like, Encoded):
        found = [each for each in found if each[0] == context.rank]
    if not found:
        return None
    return source.read(*min(found, key=lambda each: (each[0] != context.rank, each[0])))


def _lines(source: Source, key: Key, tensor: Tensor) -> list[Any]:
    """The whole tensor out of all its parts, as bits: one, or both moments."""
    import numpy as np

    parts = []
    for rank, entry in source.found(key):
        values = np.frombuffer(source.read(rank, entry), BITS[entry.dtype])
        parts.append((entry.part, values.reshape(entry.lines, -1)))
    count = max((len(values) for _, values in parts), default=0)
    if not parts or any(len(values) != count for _, values in parts):
        raise SimfrontierError(f"{key}: is in no file")
    return [whole_of(tensor.shape, [(part, values[line]) for part, values in parts], str(key)) for line in range(count)]


def _cut(source: Source, key: Key, tensor: Tensor, part: Part) -> bytes:
    return b"".join(taken(whole, part).tobytes() for whole in _lines(source, key, tensor))


def _filled(context: RankContext, like: Array | Encoded, content: bytes) -> Array | Encoded:
    """Bytes as an array, or encoded pieces, of the type and shape of one that is there."""
    if isinstance(like, Encoded):
        size = like.data.nbytes
        data = _filled(context, like.data, content[:size])
        return Encoded(data, None if like.scales is None else _filled(context, like.scales, content[size:]))
    import numpy as np

    raw = np.frombuffer(bytearray(content), np.uint8)
    backend = context.backend
    if len(raw) != math.prod(like.shape) * like.dtype.itemsize:
        raise SimfrontierError(f"{len(raw):,} bytes for {tuple(like.shape)} numbers of {like.dtype}")
    if backend.is_torch:
        import torch

        return torch.from_numpy(raw).view(like.dtype).reshape(tuple(like.shape)).to(backend.device)
    return raw.view(like.dtype).reshape(like.shape)


def _numbers(bits: Any, dtype: str) -> Any:
    """Bits of numbers as float64."""
    import numpy as np

    if dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return bits.view({"F64": "<f8", "F32": "<f4", "F16": "<f2"}[dtype]).astype(np.float64)


def difference(schedule: Schedule, held: Sequence[LogicalTensor]) -> str | None:
    """In words, the first tensor that a schedule's states and those of a checkpoint do not have in common."""
    ours = {(each.role, each.name): each for each in logical_tensors(saved_states(schedule))}
    theirs = {(each.role, each.name): each for each in held}
    for key in sorted({*ours, *theirs}):
        mine, other = ours.get(key), theirs.get(key)
        if mine != other:
            return f"{key[0]} of {key[1]}: {_text(other)} there, {_text(mine)} in the schedule"
    return None


def _text(tensor: LogicalTensor | None) -> str:
    if tensor is None:
        return "none"
    return f"{tensor.layers} × {tensor.dtype} {' × '.join(map(str, tensor.shape))}"
