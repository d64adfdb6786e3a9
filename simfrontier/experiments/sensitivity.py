"""Sensitivity: how the ratio of plans depends on what is unknown, one setting at a time and the same for all plans,
and which value of a number would make a published ratio true."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from simfrontier.errors import InputError
from simfrontier.experiments.results import run
from simfrontier.experiments.row_runner import Row, RowRunner
from simfrontier.experiments.setting import Setting
from simfrontier.records import dataclass
from simfrontier.scenario import RequiredTable, Scenario, SensitivityTable, without_comparisons
from simfrontier.simulation import Fidelity
from simfrontier.workers import Local, PerProcess, Workers

SMALLEST = 1e-2  # of the numbers in (0, 1] that are solved for
CLOSE = 1e-2  # relative distance to a published ratio at which an end of a range is a solution
PRECISE = 1e-3  # relative, of what is solved for
SCANNED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedRates:
    """One setting at one value, by plan: `rates` in tokens per second and device, `tflops` per device as they are
    published (both nan where the plan does not fit); which plans fit; and the nominal rate of the machine's devices."""

    label: str
    key: str
    value: str
    rates: Mapping[str, float]
    tflops: Mapping[str, float]
    fits: Mapping[str, bool]
    peak_flops_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RequiredValue:
    """The value of a number at which a plan's published ratio to the first plan would hold, at fidelity `analytic`
    (other settings as `label` says), or None if no value gives it."""

    key: str
    label: str
    found: Mapping[str, float | None]
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Sensitivity:
    """The compared plans at the defaults (`default`, whose label is empty) and under each variation: medians, each
    equal to what a run with that setting gives. `strongest` names the largest mover.
    `smaller`: the same at smaller sizes, where a scenario asks for several."""

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
    """All variations of the scenario's `sensitivity` table; None if it has none. Each is the run with that setting, at
    `fidelity`, or, where this is the scenario's own, at that of the variation. `workers`: who simulates (None: this
    process), with a `runner` each. Raises InputError for a variation that cannot be run."""
    table = scenario.file.sensitivity
    if table is None:
        return None
    workers, runner = workers or Workers(Local()), runner or PerProcess(RowRunner)
    largest, *others = (
        _at_size(scenario, table, size, fidelity, workers, runner, progress)
        for size in sorted(table.sizes, reverse=True)
    )
    required = tuple(_required(scenario, table, workers, runner, progress))
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
    """All variations at one size, one setting at a time."""
    plans = tuple(table.plans)
    start = replace(
        _setting(scenario, plans, devices), fidelity=None if fidelity == scenario.file.run.fidelity else fidelity
    )
    variations = [(each, value) for each in table.vary for value in each.values]
    settings = [start, *(replace(start, changes={each.key: value}) for each, value in variations)]
    default, *rows = (_fitting(mine, scenario.where) for mine in run(settings, workers, runner).rows)
    varied = []
    for (each, value), mine in zip(variations, rows, strict=True):
        varied.append(_varied(each.label, each.key, _text(value), mine))
        progress(f"{each.label} = {_text(value)}")
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


def _setting(scenario: Scenario, plans: tuple[str, ...], devices: int) -> Setting:
    """The scenario at one size as it is, without the tables that compare its plans."""
    document = without_comparisons(scenario.document, scenario.plans)
    return Setting(document=document, where=scenario.where, changes={}, plans=plans, devices=(devices,))


def _fitting(rows: Sequence[Row], where: str) -> dict[str, Row]:
    """The rows of a setting by plan. Raises InputError for what was refused."""
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
    """The number of the first of these columns that has one; nan without one."""
    return next((row[column] for column in columns if row.get(column) is not None), math.nan)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _required(
    scenario: Scenario,
    table: SensitivityTable,
    workers: Workers,
    runner: PerProcess[RowRunner],
    progress: Callable[[str], None],
) -> Iterator[RequiredValue]:
    """Solve for the numbers in (0, 1] at which published ratios would hold, each a call of its own; the ratio falls as
    the number grows."""
    plans = tuple(table.plans)
    ratios = _published_ratios(scenario, plans)
    start = replace(_setting(scenario, plans, max(table.sizes)), fidelity="analytic")
    calls = (
        (runner, replace(start, changes={**wanted.given, "uncertainty.samples": 0}), wanted.key, plan, ratio)
        for wanted in table.required
        for plan, ratio in ratios.items()
    )
    values = workers.in_order(_solved, calls)
    for wanted in table.required:
        found = {plan: next(values) for plan in ratios}
        yield _required_value(wanted, plans[0], ratios, found)
        progress(f"what {wanted.label} would have to be")


def _published_ratios(scenario: Scenario, plans: Sequence[str]) -> dict[str, float]:
    """Of the plans after the first, as far as they are published."""
    published = scenario.file.published
    return {plan: published.ratios[plan] for plan in plans[1:] if published and plan in published.ratios}


def _required_value(
    wanted: RequiredTable, first: str, ratios: Mapping[str, float], found: Mapping[str, float | None]
) -> RequiredValue:
    parts = [
        f"no value gives the published {plan} : {first} = {ratios[plan]:g}"
        if value is None
        else f"{plan} : {first} = {ratios[plan]:g} would need {value:.2g}"
        for plan, value in found.items()
    ]
    now = "" if not wanted.given else " with " + ", ".join(f"{k} = {_text(v)}" for k, v in wanted.given.items())
    return RequiredValue(
        key=wanted.key, label=wanted.label + now, found=found, sentence=f"{wanted.label}{now}: {'; '.join(parts)}"
    )


def _solved(runner: PerProcess[RowRunner], start: Setting, key: str, plan: str, wanted: float) -> float | None:
    """The number at which a plan's ratio to the first is as wanted."""
    first = start.plans[0]

    def ratio(value: float) -> float:
        setting = replace(start, changes={**start.changes, key: value}, plans=(first, plan))
        rows = _fitting(runner.here.rows_of(setting), start.where)
        return _number(rows[plan], "tokens_per_s_per_device") / _number(rows[first], "tokens_per_s_per_device")

    return _solve(ratio, wanted)


def _solve(ratio: Callable[[float], float], wanted: float) -> float | None:
    """The largest number in [SMALLEST, 1] at which the ratio is as wanted, as far as a scan of SCANNED points sees, or
    None where no two neighbours have it between them."""
    from scipy.optimize import brentq

    def miss(x: float) -> float:
        return math.log(ratio(math.exp(x)) / wanted)

    ends = (math.log(SMALLEST), 0.0)
    points = [(x, miss(x)) for x in ends]
    if points[0][1] * points[1][1] > 0.0:  # it may turn in between
        inner = (ends[0] + (ends[1] - ends[0]) * i / (SCANNED + 1) for i in range(1, SCANNED + 1))
        points[1:1] = [(x, miss(x)) for x in inner]
    brackets = [(a[0], b[0]) for a, b in pairwise(points) if a[1] * b[1] <= 0.0]
    if brackets:
        return math.exp(brentq(miss, *brackets[-1], xtol=PRECISE))
    nearest = min(points, key=lambda point: abs(point[1]))
    return math.exp(nearest[0]) if abs(nearest[1]) < CLOSE else None


def _strongest(plans: tuple[str, ...], default: Mapping[str, float], varied: list[VariedRates]) -> str:
    """The setting that moves the ratio of the last plan to the first furthest, or the rate of the only plan."""
    first, last = plans[0], plans[-1]
    if first == last:
        return _strongest_of_one(first, default[first], varied)
    base = default[last] / default[first]
    moved = [(abs(math.log(r / base)), r, v) for v, r in _ratios(varied, first, last)]
    if not moved or math.isnan(base):
        return "no variation can be compared: a plan does not fit"
    _, ratio, most = max(moved, key=lambda entry: entry[0])
    return f"{most.label} = {most.value} moves {last} : {first} most, from {base:.3f} to {ratio:.3f}"


def _strongest_of_one(plan: str, base: float, varied: list[VariedRates]) -> str:
    known = [one for one in varied if not math.isnan(one.rates[plan])]
    if not known or math.isnan(base):
        return "no variation can be compared: the plan does not fit" if varied else "nothing is varied"
    most = max(known, key=lambda one: abs(math.log(one.rates[plan] / base)))
    return f"{most.label} = {most.value} moves {plan} most, from {base:.4g} to {most.rates[plan]:.4g} tokens/s"


def _ratios(varied: list[VariedRates], first: str, last: str) -> Iterator[tuple[VariedRates, float]]:
    for one in varied:
        ratio = one.rates[last] / one.rates[first]
        if not math.isnan(ratio):
            yield one, ratio
