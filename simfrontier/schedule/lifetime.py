"""Lifetimes of buffers, and the most memory that a rank holds at once when its ops run in program order."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from simfrontier.schedule.expansion import ExpandedProgram, expand
from simfrontier.schedule.finding import title_of
from simfrontier.schedule.ir import Ref, Role, Schedule

Lifetime = tuple[Ref, int, int]  # (instance, op that writes it first, op that touches it last)


@dataclass(frozen=True, slots=True)
class Holder:
    """All instances of one tensor that are held at one moment."""

    role: str
    name: str
    count: int
    num_bytes: int


@dataclass(frozen=True, slots=True)
class Peak:
    """The most bytes that one rank holds at once: during which op, how much of it is persistent, and who holds it.

    `holders` is sorted, the largest first, and sums to `num_bytes`.
    """

    num_bytes: int
    persistent_bytes: int
    op: str
    holders: tuple[Holder, ...]


def lifetimes(program: ExpandedProgram) -> list[Lifetime]:
    """Every instance that a program touches, in the order of first touch.

    An instance that no op writes before it is used (a weight, an optimizer state) lives from its first use.
    """
    first: dict[Ref, int] = {}
    last: dict[Ref, int] = {}
    reads, writes, accumulates = program.reads, program.writes, program.accumulates
    for index in range(len(program.ops)):
        for refs in (reads[index], writes[index], accumulates[index]):
            for ref in refs:
                if ref not in first:
                    first[ref] = index
                last[ref] = index
    return [(ref, index, last[ref]) for ref, index in first.items()]


def peak_bytes(schedule: Schedule, role: Role | None = None, program: ExpandedProgram | None = None) -> Peak:
    """The peak of one role (default: of the role that needs most).

    Persistent tensors are held throughout; a buffer from its first write to its last touch, each inclusive.
    """
    if role is None:
        return max((peak_bytes(schedule, each) for each in schedule.roles), key=lambda peak: peak.num_bytes)
    program = expand(schedule, role) if program is None else program
    size = {name: tensor.held_bytes(schedule.mesh) for name, tensor in schedule.tensors.items()}
    fixed = {name for name, tensor in schedule.tensors.items() if tensor.persistent}
    spans = lifetimes(program)
    change = [0] * (program.num_ops + 1)
    persistent = 0
    for (name, _, _), begin, end in spans:
        if name in fixed:
            persistent += size[name]
        else:
            change[begin] += size[name]
            change[end + 1] -= size[name]
    held = most = at = 0
    for index, delta in enumerate(change):
        held += delta
        if held > most:
            most, at = held, index
    op = title_of(program.ops[at], program.calls[at]) if program.ops else "nothing"
    alive = [ref.name for ref, begin, end in spans if ref.name in fixed or begin <= at <= end]
    return Peak(persistent + most, persistent, op, _holders(schedule, alive, size))


def _holders(schedule: Schedule, alive: list[str], size: dict[str, int]) -> tuple[Holder, ...]:
    count: dict[str, int] = defaultdict(int)
    for name in alive:
        count[name] += 1
    holders = [
        Holder(schedule.tensors[name].role, name, number, number * size[name])
        for name, number in count.items()
        if size[name]
    ]
    return tuple(sorted(holders, key=lambda holder: (-holder.num_bytes, holder.name)))
