"""Searches over plan options that a scenario leaves open: choose the fastest candidate that fits into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice, product
from typing import Any

from simfrontier.answers.search.states import LayerStates
from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.engine import fullest
from simfrontier.core.plan import Options
from simfrontier.inputs.scenario import Case, Scenario, options_of, scenario_of, without_comparisons

TOO_BIG = "does not fit"


class NothingFitsError(SimfrontierError):
    """Raised when no plan of a search fits into memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedGrid:
    """A candidate of a search with its sequences per second at fidelity `analytic`, or the reason why it has none."""

    options: Options
    rate: float | None
    why: str = ""


@dataclass
class GridSearcher:
    """Decides searches, with a cache of built schedules; where the first grid that fits is wanted and none does, the
    largest is the decision. Candidates are compared at fidelity `analytic`; `tried` has
    the candidates of each decided search, by plan and size, in the order in which they were evaluated.
    """

    schedule_cache: ScheduleCache = field(default_factory=ScheduleCache)
    tried: dict[tuple[str, int], tuple[TriedGrid, ...]] = field(default_factory=dict)
    layer_states: LayerStates = field(default_factory=LayerStates)

    def resolved(
        self,
        scenario: Scenario,
        sizes: tuple[int, ...],
        plans: tuple[str, ...],
        progress: Callable[[str], None] = lambda _: None,
    ) -> Scenario:
        """Return the scenario with every search of these plans at these sizes decided. Raises NothingFitsError if no
        candidate fits into memory, InputError if there is no candidate.
        """
        decided = dict(scenario.resolved_options)
        for size in sizes:
            for plan in plans:
                if plan in scenario.at(size).searches and (plan, size) not in decided:
                    decided[plan, size] = self._best(scenario, plan, size)
                    progress(f"grid of {plan} on {size}")
        return replace(scenario, resolved_options=decided) if decided != scenario.resolved_options else scenario

    def complete(self, scenario: Scenario, progress: Callable[[str], None] = lambda _: None) -> Scenario:
        """Return the scenario with all its searches decided at all its sizes; errors as `resolved`."""
        return self.resolved(scenario, tuple(scenario.file.run.devices), tuple(scenario.plans), progress)

    def _best(self, scenario: Scenario, plan: str, size: int) -> Options:
        here = scenario.of(plan, size)
        shared = scenario.at(size).shared_batch(size)
        best: tuple[float, Options] | None = None
        order = here.searches[plan].order
        takes_first = order is not None and order.takes_first
        tried: list[TriedGrid] = []
        faults: list[str] = []
        for _, options in candidates(here, plan, size):
            try:
                case = here.case_with(plan, options, size, shared)
            except InputError as error:
                faults.append(str(error))
                tried.append(TriedGrid(options=options, rate=None, why=error.below(("plans", plan))))
                continue
            rate = self._rate(here, case)
            tried.append(TriedGrid(options=options, rate=rate, why=TOO_BIG if rate is None else ""))
            if rate is not None and (best is None or rate > best[0] * (1 + 1e-9)):
                best = rate, options
            if rate is not None and takes_first:
                break
        self.tried[plan, size] = tuple(tried)
        if best is not None:
            return best[1]
        can_run = [one.options for one in tried if one.why == TOO_BIG]
        if takes_first and can_run:
            return can_run[-1]
        where = f"{scenario.where}: plans.{plan}: at {size} devices"
        if len(faults) < len(tried):
            count = len(tried) - len(faults)
            raise NothingFitsError(f"{where}: none of the {count} candidates of its search fits into memory")
        raise InputError(f"{where}: no candidate of its search can run; the first: {faults[0] if faults else 'none'}")

    def _rate(self, scenario: Scenario, case: Case) -> float | None:
        """Return the samples per second of a case; None if it does not fit into memory."""
        capacity = scenario.machine.device.hbm_bytes
        if self.layer_states.num_bytes(case) > capacity:
            return None
        built = self.schedule_cache.of_case(scenario, case)
        if built.peaks and max(peak.num_bytes for peak in built.peaks) > capacity:
            return None
        step = simulated(scenario, built, "analytic")
        return case.samples / step.step_s if fullest(step, built.peaks).peak_bytes <= capacity else None


def candidates(scenario: Scenario, plan: str, size: int) -> Iterator[tuple[dict[str, Any], Options]]:
    """Yield the candidates of a search as option values and the resulting options: the grids in the order in which the
    search names them, each with all combinations of the other values.
    """
    search, base = scenario.searches[plan], scenario.plans[plan]
    table = {key: value for key, value in scenario.file.plans[plan].items() if key != "search"}
    grids: list[Mapping[str, int]] = [{}]
    if search.order is not None:
        grids = list(islice(search.order.grids(scenario, size), search.top))
    for grid in grids:
        for chosen in product(*search.values.values()):
            values = {**grid, **dict(zip(search.values, chosen, strict=True))}
            try:
                yield values, options_of(plan, {**table, **values, "family": base.family})
            except InputError as error:
                raise error.within(scenario.where) from None


def only(scenario: Scenario, plans: tuple[str, ...], devices: int) -> Scenario:
    """Return the scenario restricted to some plans at one size, without tables that compare plans. Raises InputError
    for unknown plans, invalid sizes, and plans that cannot be laid out at that size.
    """
    document = without_comparisons(scenario.document, plans)
    if "at" in document:
        document["at"] = {size: table for size, table in document["at"].items() if size == str(devices)}
    made = scenario_of(document, scenario.where, None, plans, (devices,))
    shared = scenario.at(devices).shared_batch(devices)
    if shared is not None and shared != made.shared_batch(devices):  # plans that are left out had a larger one
        made = scenario_of(document, scenario.where, {"training.batch": shared}, plans, (devices,))
    known = {
        key: options for key, options in scenario.resolved_options.items() if key[0] in plans and key[1] == devices
    }
    return replace(made, resolved_options=known)


def decided(scenario: Scenario, plan: str, devices: int, searcher: GridSearcher) -> tuple[Scenario, dict[str, Any]]:
    """Return the scenario with the plan's search at a size decided, and the setting that expresses the result (empty if
    the plan leaves no option open). Raises as `GridSearcher.resolved`.
    """
    if plan not in scenario.at(devices).searches:
        return scenario, {}
    if "." in plan:
        raise InputError(
            f"{scenario.where}: plans.{plan!r}: got a full stop in its name, allowed: none, as it searches"
        )
    found = searcher.resolved(scenario, (devices,), (plan,)).resolved_options[plan, devices]
    tried = candidates(scenario.of(plan, devices), plan, devices)
    values = next(values for values, options in tried if options == found)
    written = {key: value for key, value in _written(scenario, plan, devices).items() if key != "search"}
    settings = {f"plans.{plan}": {**written, **values, "family": found.family}}
    return scenario_of(scenario.document, scenario.where, settings, laid_out=False), settings


def _written(scenario: Scenario, plan: str, devices: int) -> dict[str, Any]:
    """Return the plan's table as in the scenario's document, with its settings for that size but without those that the
    software stack adds.
    """
    sized = scenario.document.get("at", {}).get(str(devices), {}).get("plans", {}).get(plan, {})
    return {**scenario.document["plans"][plan], **sized}
