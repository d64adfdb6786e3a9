"""Pricing of a schedule: the work of every op on a machine, for each class of ranks in a folded fabric.

The work of an op is a latency followed by an amount that is transferred at a max-min fair rate. The amount of a kernel
is its memory traffic, with a speed capped such that the kernel without contention takes its roofline time; the amount
of a collective is the payload on its busiest wire.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simfrontier.base.arrays import Ints
from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Library, algorithm, exchanged_bytes, message_bytes
from simfrontier.core.cost.alone import GROUP_WAIT, AlgorithmChoices, pattern_key
from simfrontier.core.cost.call import LOCAL, OpWork, PricedOp
from simfrontier.core.cost.layout import Layout, exchange_key, pairs_of, role_assignment_of, users_of
from simfrontier.core.cost.ops import priced_collective, priced_compute, priced_exchange
from simfrontier.core.machine import HEALTHY, Machine, Perturbation
from simfrontier.core.network import Fabric, around_dead, classes_of_nodes, fold_states, local, paired
from simfrontier.core.program import DIRECT, Collective, Compute, Exchange, Op, Schedule

# Assumed: a message up to this size takes its time alone and no bandwidth (0.04 us on a NIC of 25 GB/s, far below the
# start-up of any call).
SMALL_BYTES = 1024
Placement = Literal["block", "cyclic"]


@dataclass
class Pricing(Layout):
    """Prices of a schedule's ops on a machine; each distinct op is priced once."""

    priced: dict[int, PricedOp] = field(default_factory=dict, init=False)

    def of(self, op: Op) -> PricedOp:
        """Return the priced op; each distinct op is priced once."""
        known = self.priced.get(op.number)
        if known is None:
            match op:
                case Compute():
                    known = priced_compute(self, op)
                case Collective():
                    known = priced_collective(self, op)
                case Exchange():
                    known = priced_exchange(self, op)
            self.priced[op.number] = known
        return known

    def work_of(self, op: Op, cls: int) -> OpWork:
        """Return the work of an op on a rank class."""
        priced = self.of(op)
        return priced.works[int(self.folding.activity_of(priced.pattern)[cls])]


def price(
    schedule: Schedule,
    machine: Machine,
    library: Library,
    perturbation: Perturbation = HEALTHY,
    exact: bool = False,
    placement: Placement = "block",
) -> Pricing:
    """Return the pricing of a schedule: place its ranks on the machine, choose algorithms, build the load patterns and
    fold them. Perturbations that change over time have the values of the beginning of step 0.

    Placements are those of Slurm's distributions: `block` fills one node after the other, `cyclic` distributes ranks
    over the nodes in turn.
    """
    return price_states(schedule, machine, library, [perturbation.at((0, 0.0))], exact, placement)[0]


def price_states(
    schedule: Schedule,
    machine: Machine,
    library: Library,
    states: Sequence[Perturbation],
    exact: bool = False,
    placement: Placement = "block",
    in_classes: bool = True,
) -> tuple[Pricing, ...]:
    """Return the pricings of a schedule on a machine in several successive states, without their times; ranks of one
    class are equivalent in all states. If `in_classes`, nodes whose devices have many different speeds are grouped into
    classes, provided that there is only one role and `exact` is false; with pipeline stages, a step waits for the
    slowest rank of each stage. Algorithms are chosen as if no component were dead; the load of a dead link is rerouted
    if there is another route."""
    mesh, assignment = schedule.mesh, role_assignment_of(schedule)
    if mesh.num_ranks > machine.num_devices:
        raise InputError(f"{machine.name} has {machine.num_devices} devices; the mesh needs {mesh.num_ranks}")
    num_nodes = -(-mesh.num_ranks // machine.devices_per_node)
    device_of = placed(placement, mesh.num_ranks, num_nodes, machine)

    def laid_out(perturbation: Perturbation, classes: Ints | None = None) -> Fabric:
        return Fabric.build(
            machine, num_nodes, perturbation, num_devices=mesh.num_ranks, placement=device_of, classes=classes
        )

    fabrics, classes = [laid_out(state) for state in states], None
    if in_classes and assignment.is_one and not exact and any(states):
        classes = _node_classes(fabrics)
    if classes is not None:
        fabrics = [laid_out(state, classes) for state in states]
    alive = fabrics[0] if states[0].without_dead == states[0] else laid_out(states[0].without_dead, classes)
    choices = AlgorithmChoices(alive, mesh, library)
    collectives = {op.number: op for op in schedule.ops if isinstance(op, Collective)}
    algorithms = {number: choices.choose(op, schedule) for number, op in collectives.items()}
    small = frozenset(
        number for number, op in collectives.items() if message_bytes(op, schedule.tensors, mesh) <= SMALL_BYTES
    )
    counted, patterns, carried = {}, {}, {}
    for number, op in collectives.items():
        key, loading = pattern_key(op.axes, algorithms[number]), GROUP_WAIT if number in small else algorithms[number]
        carried[key] = op.axes, algorithms[number]
        counted[key] = choices.pattern(*carried[key])
        patterns[pattern_key(op.axes, loading)] = choices.pattern(op.axes, loading)
    direct = algorithm(DIRECT).shares_on(library, machine)
    for exchange in [op for op in schedule.ops if isinstance(op, Exchange)]:
        sizes = exchanged_bytes(exchange, schedule.tensors, mesh)
        if not any(sizes):
            raise InputError(f"schedule: exchange {exchange.name}: its messages have no bytes")
        if (key := exchange_key(exchange, *sizes)) not in patterns:
            counted[key] = patterns[key] = paired(alive, pairs_of(exchange, schedule), *sizes, direct)
    shares = {key: algorithm(name).shares_on(choices.library, machine) for key, (_, name) in carried.items()}
    own = local(alive)
    healthy = laid_out(HEALTHY) if library.tables and any(states) else alive
    loaded = []
    for fabric in fabrics:
        rerouted = {key: around_dead(fabric, pattern, shares.get(key, direct)) for key, pattern in counted.items()}
        loaded.append((rerouted, {key: rerouted.get(key, patterns[key]) for key in sorted(patterns)} | {LOCAL: own}))
    foldings = fold_states(
        [(fabric, loading) for fabric, (_, loading) in zip(fabrics, loaded, strict=True)],
        None if assignment.is_one else assignment.of_rank,
        exact,
    )
    return tuple(
        Pricing(
            schedule=schedule,
            machine=machine,
            library=choices.library,
            fabric=fabric,
            algorithms=algorithms,
            patterns=loading,
            counted=rerouted,
            carried=carried,
            small=small,
            folding=folding,
            nominal=healthy.capacity[folding.link_representative],
            role_assignment=assignment,
            role_of=assignment.of_rank[folding.representative],
            users={} if assignment.is_one else users_of(schedule),
        )
        for fabric, (rerouted, loading), folding in zip(fabrics, loaded, foldings, strict=True)
    )


def _node_classes(states: Sequence[Fabric]) -> Ints | None:
    """Return the class of every node of a machine in several states [num_nodes]; None if every node is a class of its
    own."""
    speeds, networks = (np.stack(each) for each in zip(*(state.node_speeds() for state in states), strict=True))
    classes = classes_of_nodes(speeds, networks)
    return None if len(np.unique(classes)) == len(classes) else classes


def folded_anew(pricing: Pricing, link_colour: NDArray[np.int64] | None = None, exact: bool = False) -> Pricing:
    """Return the pricing with its ranks and links folded again: with links also distinguished by a colour [num_links],
    or if `exact` with every rank and link in a class of its own."""
    assignment, nominal_of_link = pricing.role_assignment, pricing.nominal[pricing.folding.link_class]
    states = [(pricing.fabric, pricing.patterns)]
    (folding,) = fold_states(states, None if assignment.is_one else assignment.of_rank, exact, link_colour)
    return replace(
        pricing,
        folding=folding,
        nominal=nominal_of_link[folding.link_representative],
        role_of=assignment.of_rank[folding.representative],
    )


def placed(placement: Placement, num_ranks: int, num_nodes: int, machine: Machine) -> NDArray[np.int64] | None:
    """Return the device of every rank [num_ranks]; None if rank i is on device i."""
    if placement == "block" or num_nodes == 1:
        return None
    ranks = np.arange(num_ranks)
    return ranks % num_nodes * machine.devices_per_node + ranks // num_nodes
