"""Peak memory of a rank if its ops run in program order."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain, islice

import numpy as np

from simfrontier.base.arrays import Ints
from simfrontier.core.program.expansion import AbsoluteRefs
from simfrontier.core.program.finding import title_of
from simfrontier.core.program.ir import Op, Ref, Role, Schedule

WITHOUT_GAPS = 1 << 20  # ranges of numbers up to this size are not compacted


@dataclass(frozen=True, slots=True)
class Holder:
    """A tensor's share of the memory at one moment: the number and total bytes of its instances that are then in
    memory."""

    role: str
    name: str
    count: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Peak:
    """The peak memory of one rank in bytes, the persistent part of it, the op at which the peak occurs, and the tensors
    in memory at that op.

    `holders` is sorted by decreasing size; its entries sum to `num_bytes`.
    """

    num_bytes: int
    persistent_bytes: int
    op: str
    holders: tuple[Holder, ...]


def peak_bytes(schedule: Schedule, role: Role | None = None, on_host: bool = False) -> Peak:
    """Return the peak memory per rank of one role (default: of the role that needs most memory), of the device or of
    the host.

    Persistent tensors are in memory throughout the step, all other tensors from their first write to their last access
    (both ops inclusive).
    """
    if role is None:
        return max((peak_bytes(schedule, each, on_host) for each in schedule.roles), key=lambda peak: peak.num_bytes)
    spans = lifetimes(schedule, role)
    tensors = [schedule.tensors[name] for name in spans.names]
    size = [tensor.held_bytes(schedule.mesh, on_host) for tensor in tensors]
    is_small = max(size, default=0) * len(spans.tensor) < 2**62
    bytes_of = np.array(size, dtype=np.int64 if is_small else object)[spans.tensor]
    is_fixed = np.array([tensor.persistent for tensor in tensors], bool)[spans.tensor]
    change = np.zeros(spans.num_ops + 1, dtype=bytes_of.dtype)
    np.add.at(change, spans.first[~is_fixed], bytes_of[~is_fixed])
    np.subtract.at(change, spans.last[~is_fixed] + 1, bytes_of[~is_fixed])
    held = np.cumsum(change)
    at = int(np.argmax(held))
    alive = spans.tensor[is_fixed | (spans.first <= at) & (at <= spans.last)]
    count = np.bincount(alive, minlength=len(tensors))
    persistent = int(bytes_of[is_fixed].sum())
    holders = [
        Holder(tensor.role, tensor.name, int(number), int(number) * each)
        for tensor, number, each in zip(tensors, count, size, strict=True)
        if number and each
    ]
    holders.sort(key=lambda holder: (-holder.num_bytes, holder.name))
    return Peak(persistent + int(held[at]), persistent, _title(role, at), tuple(holders))


def _title(role: Role, number: int) -> str:
    """Return the text that identifies the op with this index in a role's program."""
    return next((title_of(op, call) for call, op in islice(role.instances(), number, None)), "nothing")


@dataclass(frozen=True, slots=True, eq=False)
class Lifetimes:
    """Lifetimes of all tensor instances that a role uses, as arrays [num_instances]: `tensor` (index in `names`), and
    the indices of the `first` and `last` op that uses the instance. `num_ops` is the number of ops of the role's
    program."""

    names: list[str]
    tensor: Ints
    first: Ints
    last: Ints
    num_ops: int


def lifetimes(schedule: Schedule, role: Role) -> Lifetimes:
    """Return the lifetimes of all tensor instances that a role uses. They are computed block by block, because all
    calls of a block use the same tensors, in other layers and micro-batches."""
    begin = np.cumsum([0, *(len(call.ops) for call in role.calls)])
    place = np.array([(call.layer, call.micro, call.block) for call in role.calls], np.int64).reshape(-1, 3)
    refs, number = AbsoluteRefs(schedule.tensors, role), {name: i for i, name in enumerate(schedule.tensors)}
    parts: list[Ints] = [np.zeros((5, 0), np.int64)]
    for block in dict.fromkeys(call.block for call in role.calls):
        rows = np.flatnonzero(place[:, 2] == block)
        layers, micros, at = (each[:, None] for each in (place[rows, 0], place[rows, 1], begin[rows]))
        touched = _touched(schedule, refs, schedule.blocks[block])
        name = np.array([number[ref.name] for ref in touched], np.int64)
        layer, micro = np.array([ref[1:] for ref in touched], np.int64).reshape(-1, 2).T
        tensors = [schedule.tensors[ref.name] for ref in touched]
        layer = layer + layers * np.array([tensor.per_layer for tensor in tensors], bool)
        micro = micro + micros * np.array([tensor.per_micro for tensor in tensors], bool)
        first, last = np.array(list(touched.values()), np.int64).reshape(-1, 2).T
        columns = np.broadcast_arrays(name, layer, micro, at + first, at + last)
        parts.append(np.stack([each.ravel() for each in columns]))
    name, layer, micro, first, last = np.concatenate(parts, axis=1)
    _, one, which = np.unique(_combined(_combined(layer, micro), name), return_index=True, return_inverse=True)
    begins, ends = np.full(len(one), begin[-1]), np.full(len(one), -1)
    np.minimum.at(begins, which, first)
    np.maximum.at(ends, which, last)
    return Lifetimes(list(schedule.tensors), name[one], begins, ends, int(begin[-1]))


def _touched(schedule: Schedule, refs: AbsoluteRefs, block: tuple[Op, ...]) -> dict[Ref, tuple[int, int]]:
    """Return for each reference in a block the indices of the first and last op that uses it. Layer and micro-batch are
    relative to the call if the tensor exists per layer or micro-batch, otherwise 0."""
    out: dict[Ref, tuple[int, int]] = {}
    for index, op in enumerate(block):
        for ref in chain(*refs.relative(op)):
            tensor = schedule.tensors[ref.name]
            of = Ref(ref.name, ref.layer if tensor.per_layer else 0, ref.micro if tensor.per_micro else 0)
            out[of] = out.get(of, (index, index))[0], index
    return out


def _combined(left: Ints, right: Ints) -> Ints:
    """Return one integer for each pair of integers, distinct for distinct pairs, and small enough not to overflow."""
    return _ranked(left) * (int(_ranked(right).max(initial=0)) + 1) + _ranked(right)


def _ranked(numbers: Ints) -> Ints:
    """Return the integers shifted to start at 0, or replaced by their ranks in sorted order if their range is large."""
    is_close = len(numbers) and int(numbers.max()) - int(numbers.min()) < WITHOUT_GAPS
    ranks: Ints = numbers - numbers.min() if is_close else np.unique(numbers, return_inverse=True)[1]
    return ranks
