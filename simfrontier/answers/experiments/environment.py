"""Alternative software stacks and library states (environments) of a scenario, and the step time with each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from simfrontier.answers.experiments.run import Row, RowRunner, run
from simfrontier.answers.search import decided, only
from simfrontier.answers.study.settings import Setting
from simfrontier.base.workers import PerProcess, Workers
from simfrontier.core.collectives import environments_of, load_library
from simfrontier.core.machine.stack import NONE, Stack, load_stack, stacks_of
from simfrontier.inputs.scenario import Scenario

Key = Literal["stack", "library.name"]
Band = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """An alternative software stack or library state for a job: the scenario's `key` and its `value`, a display
    `title`, and by plan the median step time relative to the assumed environment: None if the plan does not fit into
    memory with the alternative; plans that cannot run with it are left out.
    """

    key: Key
    value: str
    title: str
    factors: Mapping[str, float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Environment assumed at a size, and its alternatives. `stacks`: by plan, name and title of its software stack;
    `library`: the scenario's library. `bands`: by plan, the shortest and the longest step time over all
    alternatives, relative to the assumed environment.
    """

    devices: int
    stacks: Mapping[str, str]
    library: str
    alternatives: tuple[Alternative, ...]
    bands: Mapping[str, Band]


def environment_of(
    scenario: Scenario,
    devices: int,
    fidelity: str | None = None,
    workers: Workers | None = None,
    runner: PerProcess[RowRunner] | None = None,
) -> Environment | None:
    """Return the environment assumed for a scenario's plans at a size, with the effect of each alternative: the median
    step time relative to that of the unchanged scenario. Plans found by a search are not searched again. None if there
    are no alternatives.
    """
    runner = runner or PerProcess(RowRunner)
    found = _found_by_search(scenario, devices, runner.here)
    tried = list(_tried(scenario, devices))
    settings = [Setting.at(scenario, scenario.plans, devices, found, fidelity)]
    settings += [Setting.at(scenario, plans, devices, {**found, key: value}, fidelity) for key, value, plans in tried]
    own, *others = (_steps(rows) for rows in run(settings, workers, runner))
    alternatives = tuple(
        Alternative(key=key, value=value, title=_title_of(key, value), factors=factors)
        for (key, value, _), steps in zip(tried, others, strict=True)
        if (factors := {plan: step_s and step_s / own_s for plan, step_s in steps.items() if (own_s := own.get(plan))})
    )
    if not alternatives:
        return None
    return Environment(
        devices=devices,
        stacks={plan: _title(scenario.of(plan, devices).stack) for plan in scenario.plans},
        library=scenario.library.name,
        alternatives=alternatives,
        bands={plan: _band(plan, alternatives) for plan, step_s in own.items() if step_s},
    )


def _steps(rows: Iterable[Row]) -> dict[str, float | None]:
    """Return the seconds of the median step by plan; None for a plan that does not fit; plans that cannot run are left
    out.
    """
    return {row["plan"]: row.get("step_time_s") for row in rows if "plan" in row and not row.get("error")}


def _band(plan: str, alternatives: Iterable[Alternative]) -> Band:
    """Return the smallest and the largest relative step time of a plan over the alternatives."""
    factors = [1.0, *(factor for each in alternatives if (factor := each.factors.get(plan)))]
    return min(factors), max(factors)


def _found_by_search(scenario: Scenario, devices: int, runner: RowRunner) -> dict[str, Any]:
    """Return the plan tables that a search found, for the plans that leave options to a search."""
    changes: dict[str, Any] = {}
    for plan in scenario.at(devices).searches:
        changes |= decided(only(scenario, (plan,), devices), plan, devices, runner.searcher)[1]
    return changes


def _tried(scenario: Scenario, devices: int) -> Iterator[tuple[Key, str, tuple[str, ...]]]:
    """Yield each alternative with the plans that it may apply to."""
    of_stacks = {plan: stacks_of(scenario.plans[plan].family) for plan in scenario.plans}
    for value in dict.fromkeys([*(name for names in of_stacks.values() for name in names), NONE]):
        plans = tuple(plan for plan, names in of_stacks.items() if _is_other(value, scenario, plan, devices, names))
        if plans:
            yield "stack", value, plans
    for value in environments_of(scenario.library.name):
        yield "library.name", value, tuple(scenario.plans)


def _title_of(key: Key, value: str) -> str:
    if key == "library.name":
        return load_library(value).title
    return _title(None if value == NONE else load_stack(value))


def _title(stack: Stack | None) -> str:
    return "none: kernels as fused as the model" if stack is None else f"{stack.name}: {stack.title}"


def _is_other(stack: str, scenario: Scenario, plan: str, devices: int, of_family: Iterable[str]) -> bool:
    """Return whether a stack is available to a plan and is not the one that it uses."""
    own = scenario.of(plan, devices).stack
    return (stack == NONE or stack in of_family) and stack != (NONE if own is None else own.name)
