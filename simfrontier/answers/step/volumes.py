"""Bytes that a schedule must move across a boundary of the machine, whatever the algorithm: exact bytes per step, by
part.

A boundary is named by the mesh axis that counts its units: `node` (what enters a node), `package` (what enters a
package, from its own node or another), `gcd` (what a rank receives). The mesh's axes are nested in this order and ranks
are placed in blocks, so a unit is all ranks with equal coordinates on the axes up to the boundary.

With several roles units differ; the mean over them is reported, since each role moves its own bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from simfrontier.core.collectives import Part, exchanged_bytes, message_bytes, padding_of, whole_side, wire_of
from simfrontier.core.program import Collective, Compute, Exchange, Mesh, Op, Schedule, axis_of_roles, members_of

GRADIENTS = ("gradient", "step_reduction")  # the moves of gradients, to the accumulator and to the optimizer
Key = tuple[str, str, Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredBytes:
    """Bytes per step and unit by (purpose, boundary, part); the purpose is the name of a move, e.g. `weight_gather`."""

    num_bytes: Mapping[Key, Fraction]

    def total(self, boundary: str, purpose: str | None = None, part: Part | None = None) -> Fraction:
        """The sum over everything that is not given."""
        return sum(
            (
                size
                for (its_purpose, its_boundary, its_part), size in self.num_bytes.items()
                if its_boundary == boundary and purpose in (None, its_purpose) and part in (None, its_part)
            ),
            Fraction(0),
        )


def need_per_byte(op: Collective, mesh: Mesh, boundary: str) -> Fraction:
    """Bytes that must enter a unit (and leave it: they are equal) per byte of an op's message S, over all its groups.

    A group spans k units with m members in each; a unit has D ranks and therefore takes part in D/m groups.

        all_gather       D/m (1 - 1/k) S    what no member of the unit has must come in once
        reduce_scatter   D/m (1 - 1/k) S    the dual: sums within the unit first, then what others keep goes out once
        all_reduce     2 D/m (1 - 1/k) S    a reduce-scatter and an all-gather
        all_to_all         D (1 - 1/k) S    every member has its own S, nothing is shared
        a reduction with a quantised codec moves by all-to-all: coded pieces cannot be summed on the way
    """
    index = mesh.names.index(mesh.ordered((boundary,))[0])
    outer = set(mesh.names[: index + 1])
    across = [axis for axis in op.axes if axis in outer]
    members = mesh.size(axis for axis in op.axes if axis not in outer)
    units = mesh.size(across)
    in_unit = mesh.size(axis for axis in mesh.names if axis not in outer)
    foreign = 1 - Fraction(1, units)
    if op.kind == "all_to_all" or op.is_added_later:
        return in_unit * foreign
    rounds = 2 if op.kind == "all_reduce" else 1
    return rounds * Fraction(in_unit, members) * foreign


def op_need(op: Collective | Exchange, schedule: Schedule, boundary: str) -> Fraction:
    """Bytes that one call brings into each unit of a boundary, whatever its algorithm; scales and padding included."""
    if isinstance(op, Exchange):
        return sum(exchanged_bytes(op, schedule.tensors, schedule.mesh)) * _crossings(op, schedule.mesh, boundary)
    size = message_bytes(op, schedule.tensors, schedule.mesh)
    return size * need_per_byte(op, schedule.mesh, boundary) * _share_of_units(op, schedule)


def _crossings(op: Exchange, mesh: Mesh, boundary: str) -> Fraction:
    """Return how many of an exchange's messages one way enter a unit, on the mean: of every pair one, or none where its
    ends are in one unit."""
    outer = mesh.names[: mesh.names.index(mesh.ordered((boundary,))[0]) + 1]
    num_pairs = Fraction(mesh.num_ranks, mesh[op.axis])
    return num_pairs / mesh.size(outer) if op.axis in outer else Fraction(0)


def _share_of_units(op: Collective, schedule: Schedule) -> Fraction:
    """The share of all ranks that take part: those of one role of several, or all where the op spans roles."""
    axis = axis_of_roles(schedule)
    return Fraction(1) if axis is None or axis in op.axes else Fraction(1, schedule.mesh[axis])


def step_needs(schedule: Schedule) -> RequiredBytes:
    """The needs of all collectives of a step, at every axis of the mesh.

    Every distinct op is looked at once and multiplied by how often it runs. The parts of a purpose sum to its total:
    `data`; `scales` of quantised codecs; `padding`; `fallback`, gradients that a plan which quantises gradients moves
    unquantised; `persisted`, weights that are published whole although the plan shards weights.
    """
    mesh, parts = schedule.mesh, MessageParts(schedule)
    out: dict[Key, Fraction] = {}
    for _, op, count in counted_messages(schedule):
        sizes: Mapping[Part, Fraction] = parts.bytes_of(op)
        for boundary in mesh.names:
            if isinstance(op, Exchange):
                both_ways = exchanged_bytes(op, schedule.tensors, mesh)
                per_byte = count * Fraction(sum(both_ways), max(both_ways)) * _crossings(op, mesh, boundary)
            else:
                per_byte = count * need_per_byte(op, mesh, boundary) * _share_of_units(op, schedule)
            for part, size in sizes.items():
                if size and per_byte:
                    key = (op.name, boundary, part)
                    out[key] = out.get(key, Fraction(0)) + per_byte * size
    return RequiredBytes(num_bytes=out)


def counted_ops(schedule: Schedule) -> list[tuple[int, Op, int]]:
    """Return every distinct op of each role, behind the role's number, with how often it runs in a step."""
    out = []
    for number, role in enumerate(schedule.roles):
        blocks = {call.block: call.ops for call in role.calls}
        counts: Counter[int] = Counter()
        ops: dict[int, Op] = {}
        for block, often in Counter(call.block for call in role.calls).items():
            for op in blocks[block]:
                counts[op.number] += often
                ops[op.number] = op
        out += [(number, ops[op], count) for op, count in counts.items()]
    return out


def counted_messages(schedule: Schedule) -> list[tuple[int, Collective | Exchange, int]]:
    """The same for ops between ranks; what several roles share counts for the first of them alone."""
    return [
        (role, op, count)
        for role, op, count in counted_ops(schedule)
        if not isinstance(op, Compute) and role == min(members_of(op, schedule), default=role)
    ]


class MessageParts:
    """The bytes of a schedule's messages by weight: the buffers of a move belong to its weight.

    So both hops of a two-hop publish of a weight that stays whole are `persisted`, whatever buffer lies between them.
    """

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.tensors, self.mesh = schedule.tensors, schedule.mesh
        self.whole = {t.name for t in self.tensors.values() if t.role == "weight" and not t.placement.flat}
        self.weights = {t.name for t in self.tensors.values() if t.role == "weight"}
        self.quantised = {
            self.tensors[ref.name].weight
            for block in schedule.blocks
            for op in block
            if isinstance(op, Collective) and op.name in GRADIENTS and op.codec.is_opaque
            for ref in op.src
        }

    def of(self, op: Collective, name: str) -> Part:
        """Return what the data of one tensor of an op counts as: `fallback`, `persisted` or `data`."""
        if op.name in GRADIENTS and self.quantised and self.tensors[name].weight not in self.quantised:
            return "fallback"
        if op.name == "publish" and len(self.whole) < len(self.weights) and self.tensors[name].weight in self.whole:
            return "persisted"
        return "data"

    def bytes_of(self, op: Collective | Exchange) -> dict[Part, Fraction]:
        """The bytes of one call's messages by part; they sum to the messages, for an exchange to the larger one."""
        if isinstance(op, Exchange):
            return {"data": Fraction(max(exchanged_bytes(op, self.schedule.tensors, self.schedule.mesh)))}
        out: dict[Part, Fraction] = {}
        for name, times in Counter(ref.name for ref in whole_side(op)).items():
            tensor = self.tensors[name]
            (data, scales), padding = wire_of(op, tensor, self.mesh), padding_of(op, tensor, self.mesh)
            part = self.of(op, name)
            out[part] = out.get(part, Fraction(0)) + times * (data - padding)
            if scales:
                out["scales"] = out.get("scales", Fraction(0)) + times * scales
            if padding:
                out["padding"] = out.get("padding", Fraction(0)) + times * padding
        return out
