"""Numbers of machine or library with which published ratios of plans would hold, one number at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from simfrontier.answers.experiments.digests import Setting
from simfrontier.answers.experiments.row_runner import RowRunner
from simfrontier.answers.study import WhatIfs
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.base.workers import PerProcess, Workers
from simfrontier.inputs.scenario import RequiredTable, Scenario, SensitivityTable

NUMBERS: Final = np.exp(np.linspace(math.log(1e-2), 0.0, 301))  # 1.5 % apart; between them ratios are interpolated


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredValue:
    """The value of a number at which a plan's published ratio to the first plan would hold, at fidelity `analytic`
    (other settings as `label` says), or None if no value gives it."""

    key: str
    label: str
    found: Mapping[str, float | None]
    sentence: str


def required_values(
    scenario: Scenario,
    table: SensitivityTable,
    workers: Workers,
    runner: PerProcess[RowRunner],
    progress: Callable[[str], None],
) -> Iterator[RequiredValue]:
    """Find the numbers in [0.01, 1] at which published ratios would hold, each a call of its own."""
    published = scenario.file.published
    first, *others = table.plans
    ratios = {plan: published.ratios[plan] for plan in others if published and plan in published.ratios}
    settings = (
        Setting.at(scenario, (first, *ratios), max(table.sizes), {**wanted.given, "uncertainty.samples": 0})
        for wanted in table.required
    )
    calls = ((runner, setting, wanted.key, ratios) for wanted, setting in zip(table.required, settings, strict=True))
    for wanted, found in zip(table.required, workers.in_order(_found, calls), strict=True):
        yield _value(wanted, first, ratios, found)
        progress(f"what {wanted.label} would have to be")


def _found(
    runner: PerProcess[RowRunner], setting: Setting, key: str, ratios: Mapping[str, float]
) -> dict[str, float | None] | str:
    """The number for each plan, or why none is known."""
    try:
        rates = {plan: _rates(runner.here, setting, key, plan) for plan in setting.plans}
    except SimfrontierError as error:
        return error.what if isinstance(error, InputError) else str(error)
    first = rates[setting.plans[0]]
    return {plan: last_crossing(NUMBERS, rates[plan] / first, ratio) for plan, ratio in ratios.items()}


def _rates(runner: RowRunner, setting: Setting, key: str, plan: str) -> Floats:
    """Samples per second of a plan with each of the numbers; nan where the library takes other algorithms."""
    scenario, (devices,) = setting.scenario(), setting.devices
    scenario = runner.searcher.resolved(scenario, (devices,), (plan,))
    what_ifs = WhatIfs.of(scenario, plan, devices, "analytic", runner.schedule_cache)
    answers = what_ifs.step_s({key: NUMBERS})
    return np.where(answers.is_unlike, math.nan, scenario.case(plan, devices).samples / answers.step_s)


def last_crossing(numbers: Floats, ratios: Floats, wanted: float) -> float | None:
    """The largest number at which the ratios, known at some numbers, are as wanted; interpolated in the logarithms.
    None where no two neighbours have it between them."""
    x, miss = np.log(numbers), np.log(ratios / wanted)
    crosses = np.flatnonzero(miss[:-1] * miss[1:] <= 0.0)
    if not len(crosses):
        return None
    at = int(crosses[-1])
    low, high = float(miss[at]), float(miss[at + 1])
    share = 0.0 if low == high else low / (low - high)
    return float(np.exp(x[at] + share * (x[at + 1] - x[at])))


def _value(
    wanted: RequiredTable, first: str, ratios: Mapping[str, float], found: Mapping[str, float | None] | str
) -> RequiredValue:
    now = "" if not wanted.given else " with " + ", ".join(f"{k} = {shown(v)}" for k, v in wanted.given.items())
    label = wanted.label + now
    if isinstance(found, str):
        return RequiredValue(key=wanted.key, label=label, found=dict.fromkeys(ratios), sentence=f"{label}: {found}")
    parts = (_sentence(plan, first, ratios[plan], value) for plan, value in found.items())
    return RequiredValue(key=wanted.key, label=label, found=found, sentence=f"{label}: {'; '.join(parts)}")


def _sentence(plan: str, first: str, ratio: float, value: float | None) -> str:
    if value is None:
        return f"no value gives the published {plan} : {first} = {ratio:g}"
    return f"{plan} : {first} = {ratio:g} would need {value:.2g}"


def shown(value: object) -> str:
    """A value of a setting as text."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)
