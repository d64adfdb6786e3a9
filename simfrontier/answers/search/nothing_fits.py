"""Explain a search space in which no plan can run or fits into memory: the binding constraint, and the smallest change
that opens the space.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any, NoReturn

from simfrontier.answers.search.evaluator import PlanEvaluator, PlanResult
from simfrontier.answers.search.grids import NothingFitsError
from simfrontier.answers.search.outcome import TunedPlan
from simfrontier.answers.search.pins import Pins, Value, written
from simfrontier.answers.search.space import Candidate, Space
from simfrontier.base.errors import InputError
from simfrontier.base.units import written as quantity
from simfrontier.inputs.scenario import scenario_of

MOST_TRIED = 200  # plans that are estimated for one change
MOST_DOUBLINGS = 6  # of the devices


def refuse_empty(
    space: Space,
    outlines: Mapping[Candidate, PlanResult],
    misfits: Sequence[TunedPlan],
    faults: Mapping[Candidate, str],
) -> NoReturn:
    """Raise InputError if no plan of a space can run, NothingFitsError if no plan that can run fits into memory: one
    line with the binding constraint and what would help. `misfits`: plans that were simulated and do not fit; `faults`:
    reasons why other plans could not be simulated.
    """
    where = f"{space.scenario.where}: tune: at {space.size:,} devices"
    held = f" with {space.pins}" if space.pins.values else ""
    if not outlines:
        common = Counter(space.refused).most_common(1)
        fault = common[0][0] if common else "the pinned dimensions leave nothing: they belong to different families"
        raise InputError(f"{where}: no plan can run{held}: {fault}{_advice(space)}")
    needs = {
        candidate: outline.needs_bytes
        for candidate, outline in outlines.items()
        if outline.is_too_big(candidate.capacity_bytes)
    }
    needs |= {plan.candidate: plan.peak_bytes for plan in misfits}
    why = [*faults.values(), *(outline.fault for outline in outlines.values() if outline.fault)]
    common = Counter(why).most_common(1)
    if not needs:
        raise InputError(f"{where}: no plan can run{held}: {common[0][0]}{_advice(space)}")
    leanest = min(needs, key=lambda candidate: (needs[candidate], candidate.name))
    others = f"; {len(why):,} more cannot run: {common[0][0]}" if common else ""
    raise NothingFitsError(
        f"{where}: none of {len(needs):,} plans fits into memory{held}: the smallest needs at least "
        f"{quantity(needs[leanest], 'bytes')} of {quantity(leanest.capacity_bytes, 'bytes')} ({leanest.name})"
        f"{others}{_advice(space)}"
    )


def _advice(space: Space) -> str:
    """Return the smallest change that opens the space: one pin at its nearest other value, fused attention, or more
    devices."""
    change = "; smallest change that opens the space: "
    for name in space.pins.values:
        value = _nearest_value(space, name)
        if value is not None:
            return f"{change}{name} = {written(value)}"
    if space.scenario.file.model.attention == "plain" and _opens(_at(space, {"model.attention": "fused"})):
        return f'{change}model.attention = "fused"'
    for other in islice(_larger(space), MOST_DOUBLINGS):
        if _opens(other):
            return f"{change}{other.size:,} devices"
    if space.pins.values and _opens(replace(space, pins=Pins({}))):
        return "; no single pin opens the space, all pins left out do"
    return "; no single change of a pin, of attention or of the number of devices opens it"


def _opens(space: Space) -> bool:
    return _first_that_fits(space, space.candidates()) is not None


def _nearest_value(space: Space, name: str) -> Value | None:
    """Return the value of a dimension that is nearest to the pinned values and with which a plan fits."""
    free, held = replace(space, pins=space.pins.without(name)), space.pins.values[name]

    def distance(candidate: Candidate) -> float:
        value = candidate.value(name)
        if isinstance(value, bool | str):
            return 0.0
        return min(abs(math.log(value / one)) for one in held if isinstance(one, int) and not isinstance(one, bool))

    others = (candidate for candidate in free.candidates() if candidate.value(name) not in held)
    fitting = _first_that_fits(free, others, distance)
    return None if fitting is None else fitting.value(name)


def _larger(space: Space) -> Iterator[Space]:
    size, machine = space.size * 2, space.scenario.machine
    while size <= machine.num_devices:
        with suppress(InputError):
            yield _at(space, {}, size)
        size *= 2


def _at(space: Space, settings: Mapping[str, Any], size: int | None = None) -> Space:
    """Return the same space of plans with other scenario settings, or at another size."""
    scenario, devices = space.scenario, space.size if size is None else size
    changed = scenario_of(scenario.document, scenario.where, settings, devices=(devices,), laid_out=False)
    return Space(changed, devices, space.batch, space.pins, space.loss)


def _first_that_fits(
    space: Space, candidates: Iterable[Candidate], distance: Callable[[Candidate], float] = lambda _: 0.0
) -> Candidate | None:
    """Return the candidate with the smallest distance (among equals, the one that needs least memory) that fits into
    memory, among the first MOST_TRIED; None if none of them fits.
    """
    evaluator = PlanEvaluator(space.scenario, space.scenario, space.size)
    ordered = sorted(candidates, key=lambda candidate: (distance(candidate), *_lean(candidate)))
    for candidate in ordered[:MOST_TRIED]:
        outline = evaluator.outline(candidate.table)
        if outline.estimate is not None and outline.estimate.peak_bytes <= candidate.capacity_bytes:
            return candidate
    return None


def _lean(candidate: Candidate) -> tuple[int, ...]:
    """Return a sort key that orders plans by memory, the leanest first."""
    states = candidate.states
    model = math.prod(n for n in candidate.grid.values() if not isinstance(n, bool | str))
    return (
        ("full", "selective", "none").index(candidate.checkpointing),
        -states.spread if not candidate.grid else -9 - model,
        candidate.micro_batch,
    )
