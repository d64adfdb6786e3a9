"""What a scenario leaves to where it runs: other software stacks and other states of its library, and what a step takes
with each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Literal

from simfrontier.collectives import environments_of
from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.records import dataclass
from simfrontier.scenario import Scenario, scenario_of, without_comparisons
from simfrontier.stack import NONE, Stack, stacks_of
from simfrontier.tuning import SmallSchedules, estimate

Key = Literal["stack", "library.name"]
Band = tuple[float, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """A stack or a state of the library that a job may have instead: the scenario's `key` and its `value`, in words
    (`title`), and by plan what a step takes over what it takes as assumed, without those that do not run with it. A
    plan that was searched for keeps the keys that it was found with."""

    key: Key
    value: str
    title: str
    factors: Mapping[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """What is assumed of the environment at a size, and the alternatives. `stacks`: by plan, name and title of what it
    runs by; `library`: as the scenario has it, with its title. `bands`: by plan, the shortest and the longest
    step over all of these, over what is assumed."""

    devices: int
    stacks: Mapping[str, str]
    library: str
    library_title: str
    alternatives: tuple[Alternative, ...]
    bands: Mapping[str, Band]


def environment_of(scenario: Scenario, devices: int) -> Environment | None:
    """What is assumed of the environment of a scenario's plans at a size, and what the alternatives would change, by
    estimates without contention; None where there are none."""
    steps = _Steps(scenario, devices)
    own = steps.of(scenario, set(scenario.plans))
    alternatives = tuple(_alternatives(scenario, steps, own))
    if not alternatives:
        return None
    factors = {plan: [1.0, *(each.factors[plan] for each in alternatives if plan in each.factors)] for plan in own}
    return Environment(
        devices=devices,
        stacks={plan: _title(scenario.of(plan, devices).stack) for plan in scenario.plans},
        library=scenario.library.name,
        library_title=scenario.library.title,
        alternatives=alternatives,
        bands={plan: (min(each), max(each)) for plan, each in factors.items()},
    )


def _title(stack: Stack | None) -> str:
    return "none: kernels as fused as the model" if stack is None else f"{stack.name}: {stack.title}"


def _alternatives(scenario: Scenario, steps: _Steps, own: Mapping[str, float]) -> Iterator[Alternative]:
    """Those with which any of the plans has a step."""
    said = without_comparisons(scenario.document, scenario.plans)
    families = {plan: scenario.plans[plan].family for plan in own}
    of_stacks = {plan: stacks_of(family) for plan, family in families.items()}
    tried: tuple[tuple[Key, Iterable[str]], ...] = (
        ("stack", dict.fromkeys([*(name for names in of_stacks.values() for name in names), NONE])),
        ("library.name", environments_of(scenario.library.name)),
    )
    for key, values in tried:
        for value in values:
            try:
                changed = scenario_of(said, scenario.where, {key: value}, devices=(steps.devices,), laid_out=False)
                changed = replace(changed, resolved_options=scenario.resolved_options)  # grids that were searched for
            except InputError:  # its keys do not go with the scenario's, or with its machine
                continue
            goes = {
                plan
                for plan in own
                if key != "stack" or _is_other(value, scenario, plan, steps.devices, of_stacks[plan])
            }
            factors = {plan: step_s / own[plan] for plan, step_s in steps.of(changed, goes).items()}
            title = _title(changed.stack) if key == "stack" else changed.library.title
            if factors:
                yield Alternative(key=key, value=value, title=title, factors=factors)


def _is_other(stack: str, scenario: Scenario, plan: str, devices: int, of_family: Iterable[str]) -> bool:
    """Whether a plan could run by a stack, and does not do so as it is."""
    own = scenario.of(plan, devices).stack
    return (stack == NONE or stack in of_family) and stack != (NONE if own is None else own.name)


class _Steps:
    """Steps of variants of a scenario at a size: what is built for one serves those with the same schedules."""

    def __init__(self, scenario: Scenario, devices: int) -> None:
        self.devices = devices
        file = scenario.file
        self.prices = Prices(scenario.machine, scenario.library, devices, file.perturbation, file.run.placement)
        self.small = SmallSchedules(self.prices)

    def of(self, scenario: Scenario, plans: set[str]) -> dict[str, float]:
        """Seconds of a step by plan; without plans that cannot be estimated."""
        out = {}
        for plan in scenario.plans:
            if plan in plans:
                self.small.reprice(self.prices.by(scenario.library), scenario.of(plan, self.devices).machine)
                try:
                    out[plan] = estimate(scenario.case(plan, self.devices), self.small).step_s
                except InputError:
                    continue
        return out
