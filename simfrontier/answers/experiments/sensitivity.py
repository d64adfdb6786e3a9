"""Sensitivity of the ratios between plans to uncertain settings, varied one at a time and equally for all plans; and
the values of machine or library numbers at which published ratios would hold.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from simfrontier.answers.experiments.run import Row, RowRunner, run
from simfrontier.answers.study import WhatIfs
from simfrontier.answers.study.settings import Setting
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.base.workers import Local, PerProcess, Workers
from simfrontier.core.engine import Fidelity
from simfrontier.inputs.scenario import RequiredTable, Scenario, SensitivityTable

NUMBERS: Final = np.exp(np.linspace(math.log(1e-2), 0.0, 301))  # 1.5 % apart; between them ratios are interpolated


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredValue:
    """The value of a number at which a plan's published ratio to the first plan would hold, at fidelity `analytic`
    (`label` names the other settings); None if there is no such value.
    """

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
    """Find the numbers in [0.01, 1] at which published ratios hold, in one worker call per number."""
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
    """Return the number for each plan, or the reason why it could not be found."""
    try:
        rates = {plan: _rates(runner.here, setting, key, plan) for plan in setting.plans}
    except SimfrontierError as error:
        return error.what if isinstance(error, InputError) else str(error)
    first = rates[setting.plans[0]]
    return {plan: last_crossing(NUMBERS, rates[plan] / first, ratio) for plan, ratio in ratios.items()}


def _rates(runner: RowRunner, setting: Setting, key: str, plan: str) -> Floats:
    """Return the samples per second of a plan at each trial number; nan where the library selects other algorithms."""
    scenario, (devices,) = setting.scenario(), setting.devices
    scenario = runner.searcher.resolved(scenario, (devices,), (plan,))
    what_ifs = WhatIfs.of(scenario, plan, devices, "analytic", runner.schedule_cache)
    answers = what_ifs.step_s({key: NUMBERS})
    return np.where(answers.is_unlike, math.nan, scenario.case(plan, devices).samples / answers.step_s)


def last_crossing(numbers: Floats, ratios: Floats, wanted: float) -> float | None:
    """Return the largest number at which the ratio equals `wanted`, by logarithmic interpolation between the given
    numbers. None if no two neighbouring ratios enclose it.
    """
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
    """Return a value of a setting as text."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedRates:
    """Results of one setting at one value, by plan: `rates` in tokens per second and device, `tflops` per device as
    usually published (both nan if the plan does not fit), which plans fit, and the nominal rate of the machine's
    devices.
    """

    label: str
    key: str
    value: str
    rates: Mapping[str, float]
    tflops: Mapping[str, float]
    fits: Mapping[str, bool]
    peak_flops_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The compared plans with the default settings (`default`, with an empty label) and with each variation; all rates
    are medians, equal to those of a run with that setting. `strongest` names the setting with the largest effect.
    `smaller`: the same at smaller sizes, if the scenario has several.
    """

    devices: int
    plans: tuple[str, ...]
    default: VariedRates
    varied: tuple[VariedRates, ...]
    fidelity: str
    required: tuple[RequiredValue, ...]
    strongest: str
    smaller: tuple[Sensitivity, ...] = ()


def run_sensitivity(
    scenario: Scenario,
    fidelity: Fidelity,
    progress: Callable[[str], None] = lambda _: None,
    workers: Workers | None = None,
    runner: PerProcess[RowRunner] | None = None,
) -> Sensitivity | None:
    """Simulate all variations of the scenario's `sensitivity` table; None if it has none. Each is simulated at
    `fidelity` or, if that is the scenario's own, at the fidelity of the variation. `workers`: simulate in parallel,
    with one `runner` each (None: in this process). Raises InputError for a variation that cannot be run.
    """
    table = scenario.file.sensitivity
    if table is None:
        return None
    workers, runner = workers or Workers(Local()), runner or PerProcess(RowRunner)
    largest, *others = (
        _at_size(scenario, table, size, fidelity, workers, runner, progress)
        for size in sorted(table.sizes, reverse=True)
    )
    required = tuple(required_values(scenario, table, workers, runner, progress))
    return replace(largest, required=required, smaller=tuple(others))


def _at_size(
    scenario: Scenario,
    table: SensitivityTable,
    devices: int,
    fidelity: Fidelity,
    workers: Workers,
    runner: PerProcess[RowRunner],
    progress: Callable[[str], None],
) -> Sensitivity:
    """Return all variations at one size, one setting at a time."""
    plans = tuple(table.plans)
    other = None if fidelity == scenario.file.run.fidelity else fidelity
    start = Setting.at(scenario, plans, devices, fidelity=other)
    variations = [(each, value) for each in table.vary for value in each.values]
    settings = [start, *(replace(start, changes={each.key: value}) for each, value in variations)]
    default, *rows = (_fitting(mine, scenario.where) for mine in run(settings, workers, runner))
    varied = []
    for (each, value), mine in zip(variations, rows, strict=True):
        varied.append(_varied(each.label, each.key, shown(value), mine))
        progress(f"{each.label} = {shown(value)}")
    first = _varied("", "", "", default)
    return Sensitivity(
        devices=devices,
        plans=plans,
        default=first,
        varied=tuple(varied),
        fidelity=fidelity,
        required=(),
        strongest=_strongest(plans, first.rates, varied),
    )


def _fitting(rows: Sequence[Row], where: str) -> dict[str, Row]:
    """Return the rows of a setting by plan. Raises InputError if a plan was refused."""
    for row in rows:
        if row.get("error"):
            raise InputError(str(row["error"]), where=where)
    return {row["plan"]: row for row in rows}


def _varied(label: str, key: str, value: str, rows: Mapping[str, Row]) -> VariedRates:
    known = next((row for row in rows.values() if row["fits"]), None)
    return VariedRates(
        label=label,
        key=key,
        value=value,
        rates={plan: _number(row, "tokens_per_s_per_device") for plan, row in rows.items()},
        tflops={plan: _number(row, "neox_tflops_per_device", "tflops_per_device") for plan, row in rows.items()},
        fits={plan: row["fits"] for plan, row in rows.items()},
        peak_flops_per_s=math.nan if known is None else 1e12 * known["tflops_per_device"] / known["mfu"],
    )


def _number(row: Row, *columns: str) -> float:
    """Return the first number among the given columns of a row; nan if there is none."""
    return next((row[column] for column in columns if row.get(column) is not None), math.nan)


def _strongest(plans: tuple[str, ...], default: Mapping[str, float], varied: list[VariedRates]) -> str:
    """Return the setting that changes the ratio of the last plan to the first most, or the rate of the only plan."""
    first, last = plans[0], plans[-1]
    is_one = first == last
    if is_one and not varied:
        return "nothing is varied"

    def of(rates: Mapping[str, float]) -> float:
        return rates[last] if is_one else rates[last] / rates[first]

    base = of(default)
    moved = [(one, value) for one in varied if not math.isnan(value := of(one.rates))]
    if not moved or math.isnan(base):
        return f"no variation can be compared: {'the' if is_one else 'a'} plan does not fit"
    most, value = max(moved, key=lambda each: abs(math.log(each[1] / base)))
    if is_one:
        return f"{most.label} = {most.value} moves {last} most, from {base:.4g} to {value:.4g} tokens/s"
    return f"{most.label} = {most.value} moves {last} : {first} most, from {base:.3f} to {value:.3f}"
