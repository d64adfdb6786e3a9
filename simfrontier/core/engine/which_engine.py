"""Which engine runs a step: by its fidelity and its roles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simfrontier.core.cost import Pricing
from simfrontier.core.engine.analytic import without_contention
from simfrontier.core.engine.context import EngineContext
from simfrontier.core.engine.engine import Engine
from simfrontier.core.engine.repeating import RepeatingEngine
from simfrontier.core.engine.timeline import RoleTimeline
from simfrontier.core.program import SegmentedProgram


def simulate(
    parts: Sequence[SegmentedProgram],
    pricing: Pricing,
    contended: bool = True,
    later: Sequence[tuple[float, Pricing]] = (),
) -> tuple[RoleTimeline, ...]:
    """Run one step of all roles, one result for each; not `contended`, every op takes its time alone (fidelity
    `analytic`). `later`: the machine in other states, folded with this one, and from when on, in seconds. Raises
    JobStopsError where something is dead that the step needs, and stays so."""
    classes = classes_of(pricing, len(parts))
    if not contended:
        return without_contention(parts, classes, pricing)
    context, others = EngineContext(pricing), [(since, EngineContext(state)) for since, state in later]
    if len(parts) == 1 and parts[0].num_ops == parts[0].program.num_ops:
        return RepeatingEngine(context, parts[0], classes[0], others).run()
    return Engine([(context, *role) for role in zip(parts, classes, strict=True)], later=others).run()


def classes_of(pricing: Pricing, num_roles: int) -> list[tuple[int, ...]]:
    """The rank classes of each role."""
    return [tuple(np.flatnonzero(pricing.role_of == number).tolist()) for number in range(num_roles)]
