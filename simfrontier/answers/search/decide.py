"""A scenario at one size with some of its plans, and searches decided once, with what was found in the place of the
search."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from simfrontier.answers.search.grids import GridSearcher, candidates
from simfrontier.base.errors import InputError
from simfrontier.inputs.scenario import Scenario, scenario_of, without_comparisons


def only(scenario: Scenario, plans: tuple[str, ...], devices: int) -> Scenario:
    """The scenario with some plans at one size, and without what compares plans. Raises InputError for names that are
    no plans, sizes that cannot be, and plans that cannot be at that size."""
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
    """The scenario with the plan's search at a size decided, and the setting that says so (nothing where the plan
    leaves nothing open). Errors as `GridSearcher.resolved`."""
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
    return scenario_of(scenario.document, scenario.where, settings), settings


def _written(scenario: Scenario, plan: str, devices: int) -> dict[str, Any]:
    """The plan's table as the document has it, with what it says for that size: what a stack adds stays the stack's."""
    sized = scenario.document.get("at", {}).get(str(devices), {}).get("plans", {}).get(plan, {})
    return {**scenario.document["plans"][plan], **sized}
