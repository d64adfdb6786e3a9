"""Which engine runs a step: by its fidelity, its roles, and the speeds of its devices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.cost import Cluster
from simfrontier.schedule import SegmentedProgram
from simfrontier.simulation.analytic import without_contention
from simfrontier.simulation.context import EngineContext
from simfrontier.simulation.engine import Engine
from simfrontier.simulation.repeating import RepeatingEngine
from simfrontier.simulation.timeline import RoleTimeline

# Speeds of devices: with more, a clock for each rank class is faster, and gives the same but for rounding. Rank classes
# of one speed keep step.
MOST_ON_ONE_CLOCK = 16


def simulate(
    parts: Sequence[SegmentedProgram],
    cluster: Cluster,
    contended: bool = True,
    later: Sequence[tuple[float, Cluster]] = (),
    longer: Sequence[Floats] | None = None,
) -> tuple[RoleTimeline, ...]:
    """Run one step of all roles, one result for each; not `contended`, every op takes its time alone (fidelity
    `analytic`). `later`: the machine in other states, folded with this one, and from when on, in seconds; `longer`:
    `call_factors`, where calls differ. Raises JobStopsError where something is dead that the step needs, and stays
    so."""
    classes = classes_of(cluster, len(parts))
    if not contended:
        return without_contention(parts, classes, cluster)
    if len(parts) == 1 and not later and _are_many(cluster, longer is not None):
        from simfrontier.simulation.local_clocks import simulate_many

        timeline = simulate_many(parts[0].program, cluster, None if longer is None else longer[0])
        return (RoleTimeline(segmented=parts[0], classes=classes[0], timeline=timeline, by_class={}, by_node={}),)
    context, others = EngineContext(cluster), [(since, EngineContext(state)) for since, state in later]
    if longer is None and len(parts) == 1 and parts[0].num_ops == parts[0].program.num_ops:
        return RepeatingEngine(context, parts[0], classes[0], others).run()
    return Engine(context, list(zip(parts, classes, strict=True)), later=others, longer=longer).run()


def classes_of(cluster: Cluster, num_roles: int) -> list[tuple[int, ...]]:
    """The rank classes of each role."""
    return [tuple(np.flatnonzero(cluster.role_of == number).tolist()) for number in range(num_roles)]


def _are_many(cluster: Cluster, calls_differ: bool) -> bool:
    """Whether kernels end at many instants, and all of them do."""
    num = cluster.folding.num_rank_classes if calls_differ else len(np.unique(cluster.fabric.speed))
    return num > MOST_ON_ONE_CLOCK and bool(cluster.folding.capacity.all() and cluster.fabric.speed.all())
