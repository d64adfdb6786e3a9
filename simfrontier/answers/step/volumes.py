"""Lower bounds that no algorithm and no order of ops can beat: bytes that a schedule must move across a boundary of the
machine (exact, per step, by part), and bounds on the time of a simulated step.

A boundary is named by the mesh axis that counts its units: `node` (bytes that enter a node), `package` (bytes that
enter a package, from its own node or another), `gcd` (bytes that a rank receives). The mesh axes are nested in this
order and ranks are placed in blocks, so a unit consists of all ranks with equal coordinates on the axes up to the
boundary.

With several roles units differ, since each role moves its own bytes; the mean over the units is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.collectives import Part, exchanged_bytes, message_bytes, padding_of, whole_side, wire_of
from simfrontier.core.cost import PricedOp, Pricing
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.network import ResourceKind
from simfrontier.core.program import Collective, Compute, Exchange, Mesh, Op, Schedule, axis_of_roles, members_of

GRADIENTS = ("gradient", "step_reduction")  # the moves of gradients, to the accumulator and to the optimizer
Key = tuple[str, str, Part]


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredBytes:
    """Bytes per step and unit by (purpose, boundary, part); the purpose is the name of a data movement, e.g.
    `weight_gather`.
    """

    num_bytes: Mapping[Key, Fraction]

    def total(self, boundary: str, purpose: str | None = None, part: Part | None = None) -> Fraction:
        """Return the sum over all parts that match; an argument left out matches everything."""
        return sum(
            (
                size
                for (its_purpose, its_boundary, its_part), size in self.num_bytes.items()
                if its_boundary == boundary and purpose in (None, its_purpose) and part in (None, its_part)
            ),
            Fraction(0),
        )


def need_per_byte(op: Collective, mesh: Mesh, boundary: str) -> Fraction:
    """Return bytes that must enter a unit (and leave it: they are equal) per byte of an op's message S, over all its
    groups.

    A group spans k units with m members in each; a unit has D ranks and therefore takes part in D/m groups.

        all_gather       D/m (1 - 1/k) S    what no member of the unit has must come in once
        reduce_scatter   D/m (1 - 1/k) S    the dual: sums within the unit first, then what others keep goes out once
        all_reduce     2 D/m (1 - 1/k) S    a reduce-scatter and an all-gather
        all_to_all         D (1 - 1/k) S    every member has its own S, nothing is shared
        a step of a ring      1/(n - 1) of what its gather or reduce-scatter needs, whose message has n blocks
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
    rounds = Fraction(2 if op.kind == "all_reduce" else 1)
    if op.turns:  # one of n - 1 steps, whose message is a block of n
        rounds = Fraction(units * members, units * members - 1)
    return rounds * Fraction(in_unit, members) * foreign


def op_need(op: Collective | Exchange, schedule: Schedule, boundary: str) -> Fraction:
    """Return the bytes that one call must bring into each unit of a boundary, whatever its algorithm, including scales
    and padding.
    """
    if isinstance(op, Exchange):
        return sum(exchanged_bytes(op, schedule.tensors, schedule.mesh)) * _crossings(op, schedule.mesh, boundary)
    size = message_bytes(op, schedule.tensors, schedule.mesh)
    return size * need_per_byte(op, schedule.mesh, boundary) * _share_of_units(op, schedule)


def _crossings(op: Exchange, mesh: Mesh, boundary: str) -> Fraction:
    """Return the average number of an exchange's messages in one direction that enter a unit: one for every pair whose
    ends are in different units.
    """
    outer = mesh.names[: mesh.names.index(mesh.ordered((boundary,))[0]) + 1]
    num_pairs = Fraction(mesh.num_ranks, mesh[op.axis])
    return num_pairs / mesh.size(outer) if op.axis in outer else Fraction(0)


def _share_of_units(op: Collective, schedule: Schedule) -> Fraction:
    """Return the share of all ranks that take part in an op: the ranks of one role, or all ranks if the
    op spans roles.
    """
    axis = axis_of_roles(schedule)
    return Fraction(1) if axis is None or axis in op.axes else Fraction(1, schedule.mesh[axis])


def step_needs(schedule: Schedule) -> RequiredBytes:
    """Return the required bytes of all collectives of a step, at every axis of the mesh.

    Every distinct op is evaluated once and multiplied by the number of its executions. The parts of a purpose sum to
    its total: `data`; `scales` of quantised codecs; `padding`; `fallback`, gradients that a plan with quantised
    gradients moves unquantised; `persisted`, weights that are published whole although the plan shards weights.
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
    """Return every distinct op of each role as (role index, op, number of executions in a step)."""
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
    """Return the same as `counted_ops` for communication ops; ops shared by several roles are attributed to the first
    role.
    """
    return [
        (role, op, count)
        for role, op, count in counted_ops(schedule)
        if not isinstance(op, Compute) and role == min(members_of(op, schedule), default=role)
    ]


class MessageParts:
    """Classifies the bytes of a schedule's messages by the weight that they belong to; buffers of a data movement
    belong to its weight.

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
        """Return the part that the data of one tensor of an op belongs to: `fallback`, `persisted` or `data`."""
        if op.name in GRADIENTS and self.quantised and self.tensors[name].weight not in self.quantised:
            return "fallback"
        if op.name == "publish" and len(self.whole) < len(self.weights) and self.tensors[name].weight in self.whole:
            return "persisted"
        return "data"

    def bytes_of(self, op: Collective | Exchange) -> dict[Part, Fraction]:
        """Return the bytes of one call's messages by part; the parts sum to the message size, for an exchange to that
        of the larger message.
        """
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Lower bounds in seconds: `lane_s`, of the busiest lane if every op ran alone; `link_s`, of the busiest link at
    full capacity; and `step_s`, the larger of the two.

    `step_s` is valid at fidelity `flow`, `lane_s` also at `analytic`; at `chunk` neither is valid. If calls differ,
    `link_s` is 0: a call then shares links as in a step with usual calls, so that some links may carry more than their
    capacity.
    """

    lane_s: float
    link_s: float

    @property
    def step_s(self) -> float:
        return max(self.lane_s, self.link_s)


def bounds(step: SimulatedStep) -> Bounds:
    """Return lower bounds on a step. Each lane is a FIFO, so a step lasts at least as long as the ops of its busiest
    lane, each at the speed it has when it runs alone on the machine; and each wire has to carry its bytes.
    """
    pricing, states = step.pricing, [state.pricing for state in step.states] or [step.pricing]
    lanes: dict[tuple[str, int], float] = {}
    known: dict[int, list[float]] = {}  # by number of the op, which several roles may have
    wire = np.zeros(pricing.folding.num_link_classes)
    best = np.max([state.folding.capacity for state in states], axis=0)
    longer = None if step.call_factors is None else _longer(step)
    for role, op, count in counted_ops(step.schedule):
        priced = pricing.of(op)
        if op.number not in known:
            each = [[state.least_s(work) for work in state.of(op).works] for state in states]
            known[op.number] = list(map(min, *each)) if len(each) > 1 else each[0]
        shortest = known[op.number]
        mine = np.flatnonzero(pricing.role_of == role)
        groups = pricing.folding.activity_of(priced.pattern)[mine]
        times = [1.0] * len(mine) if longer is None else (longer[role][op.number] / count).tolist()
        for cls, group, each in zip(mine.tolist(), groups.tolist(), times, strict=True):
            lanes[op.lane, cls] = lanes.get((op.lane, cls), 0.0) + count * each * shortest[group]
        if longer is None and not isinstance(op, Compute) and role == min(members_of(op, step.schedule), default=role):
            used = range(len(priced.works)) if pricing.role_assignment.is_shared(op) else dict.fromkeys(groups.tolist())
            asked = [_asked(state, best, state.of(op), used) for state in states]
            wire += count * (np.min(asked, axis=0) if len(asked) > 1 else asked[0])
    is_used = (pricing.fabric.kind[pricing.folding.link_representative] == ResourceKind.WIRE) & (wire > 0.0)
    link_s = float((wire[is_used] / best[is_used]).max(initial=0.0))
    return Bounds(lane_s=max(lanes.values(), default=0.0), link_s=link_s)


def _longer(step: SimulatedStep) -> list[dict[int, Floats]]:
    """Return, for each role and op index, the summed durations of the op's calls relative to its usual duration
    [num_classes].
    """
    out = []
    for role, factors in zip(step.roles, step.call_factors or (), strict=True):
        of_op: dict[int, Floats] = {}
        for op, times in zip(role.segmented.program.ops, factors.T, strict=True):
            of_op[op.number] = of_op.get(op.number, 0.0) + times
        out.append(of_op)
    return out


def _asked(pricing: Pricing, best: Floats, priced: PricedOp, groups: Iterable[int]) -> Floats:
    """Return the load of an op on each link class, converted to a link of the `best` capacity; infinite if the op
    stands still. `groups`: the groups that run it."""
    out = np.zeros(len(best))
    for work in (priced.works[group] for group in groups):
        if work.stands_still:
            return np.full(len(best), np.inf)
        if work.amount > 0.0:
            flow = pricing.flows[work.flow]
            own, highest = pricing.folding.capacity[flow.rows], best[flow.rows]
            out[flow.rows] += work.amount * flow.load * np.divide(highest, own, out=np.ones(len(own)), where=own > 0.0)
    return out
