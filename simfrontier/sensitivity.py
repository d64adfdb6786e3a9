"""Sensitivity: how the ratio of plans depends on what is unknown, one setting at a time and the same for all plans,
and which value of a number would make a published ratio true."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, NamedTuple

from simfrontier.io import frozen
from simfrontier.scenario import RequiredTable, Scenario, SensitivityTable, scenario_of, without_comparisons
from simfrontier.simulation import Fidelity
from simfrontier.study import PlanOutcome, ScheduleCache, run_case
from simfrontier.tuning import GridSearcher, NothingFitsError
from simfrontier.workers import Local, PerProcess, Workers

SMALLEST = 1e-2  # of the numbers in (0, 1] that are solved for
CLOSE = 1e-2  # relative distance to a published ratio at which a solution is good enough
MAX_STEPS = 30
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
    known: Sequence[PlanOutcome] = (),
    workers: Workers | None = None,
    schedules: PerProcess[ScheduleCache] | None = None,
) -> Sensitivity | None:
    """All variations of the scenario's `sensitivity` table; None if it has none. Each is the run with that setting, at
    `fidelity`, or, where this is the scenario's own, at that of the variation. `known`: outcomes of this scenario at
    this fidelity, folded, which are not simulated again. `workers`: who simulates, a plan of a variation at a time
    (None: this process); `schedules`: what is built is taken from there and kept there."""
    table = scenario.file.sensitivity
    if table is None:
        return None
    workers, schedules = workers or Workers(Local()), schedules or PerProcess(ScheduleCache)
    searcher = PerProcess(_searcher, schedules)
    largest, *others = sorted(table.sizes, reverse=True)
    smaller = tuple(
        _at_size(scenario, table, size, (), fidelity, workers, searcher, known, progress) for size in others
    )
    solved = tuple(table.required)
    sensitivity = _at_size(scenario, table, largest, solved, fidelity, workers, searcher, known, progress)
    return replace(sensitivity, smaller=smaller)


def _searcher(schedules: PerProcess[ScheduleCache]) -> GridSearcher:
    return GridSearcher(schedule_cache=schedules.here)


def _at_size(
    scenario: Scenario,
    table: SensitivityTable,
    devices: int,
    solved: tuple[RequiredTable, ...],
    fidelity: Fidelity,
    workers: Workers,
    searcher: PerProcess[GridSearcher],
    known: Sequence[PlanOutcome],
    progress: Callable[[str], None],
) -> Sensitivity:
    """All variations at one size, and the values that would make published ratios true."""
    plans = tuple(table.plans)
    chosen = None if fidelity == scenario.file.run.fidelity else fidelity
    rates = _Rates(fidelity=chosen, devices=devices, plans=plans, searcher=searcher)
    start = replace(_with(scenario, devices, {}), resolved_options=scenario.resolved_options)
    rates.take(start, known)
    variations = [
        (variation, _text(value), _with(start, devices, {variation.key: value}))
        for variation in table.vary
        for value in variation.values
    ]
    found = rates.all([start, *(changed for _, _, changed in variations)], workers)
    default = _varied("", "", "", start, next(found))
    varied = []
    for (variation, value, changed), result in zip(variations, found, strict=True):
        varied.append(_varied(variation.label, variation.key, value, changed, result))
        progress(f"{variation.label} = {value}")
    alone = _Rates(fidelity="analytic", devices=devices, plans=plans, searcher=searcher, weighed=False)
    return Sensitivity(
        devices=devices,
        plans=plans,
        default=default,
        varied=tuple(varied),
        fidelity=fidelity,
        required=tuple(_required(scenario, solved, alone, workers, progress)),
        strongest=_strongest(plans, default.rates, varied),
    )


def _varied(label: str, key: str, value: str, scenario: Scenario, found: Mapping[str, _Rate]) -> VariedRates:
    return VariedRates(
        label=label,
        key=key,
        value=value,
        rates={plan: each.rate if each.fits else math.nan for plan, each in found.items()},
        tflops={plan: each.tflops if each.fits else math.nan for plan, each in found.items()},
        fits={plan: each.fits for plan, each in found.items()},
        peak_flops_per_s=scenario.peak_flops_per_s,
    )


class _Rate(NamedTuple):
    """Tokens per second and device, TFLOPS per device as they are published, and whether the plan fits."""

    rate: float
    tflops: float
    fits: bool

    @classmethod
    def of(cls, outcome: PlanOutcome) -> _Rate:
        """Of an outcome whose row is not cleared where it does not fit."""
        row = outcome.row
        tflops = row["neox_tflops_per_device"] if row["neox_tflops_per_device"] != "" else row["tflops_per_device"]
        return cls(float(row["tokens_per_s_per_device"]), float(tflops), bool(row["fits"]))


DOES_NOT_FIT = _Rate(math.nan, math.nan, False)


@dataclass
class _Rates:
    """Rates of the compared plans, and whether they fit (`weighed`: else all do), as a run has them; whatever was
    simulated before is looked up. `fidelity`: None for each scenario's own."""

    fidelity: Fidelity | None
    devices: int
    plans: tuple[str, ...]
    searcher: PerProcess[GridSearcher]
    weighed: bool = True
    known: dict[Hashable, _Rate] = field(default_factory=dict)

    def all(self, scenarios: Sequence[Scenario], workers: Workers) -> Iterator[dict[str, _Rate]]:
        """Rates by plan, of each scenario in order. What several of them ask for is simulated once."""
        keys = [{plan: self._key(scenario, plan) for plan in self.plans} for scenario in scenarios]
        new: dict[Hashable, tuple[Scenario, str]] = {}
        for scenario, by_plan in zip(scenarios, keys, strict=True):
            new |= {key: (scenario, plan) for plan, key in by_plan.items() if key not in self.known and key not in new}
        given = self.devices, self.fidelity, self.weighed, self.searcher
        calls = ((scenario, plan, *given) for scenario, plan in new.values())
        made = zip(new, workers.in_order(_rate, calls), strict=True)
        for by_plan in keys:
            while any(key not in self.known for key in by_plan.values()):
                self.known.update([next(made)])
            yield {plan: self.known[key] for plan, key in by_plan.items()}

    def take(self, scenario: Scenario, outcomes: Sequence[PlanOutcome]) -> None:
        """Note outcomes of a scenario, as far as they are of these plans at this size."""
        for outcome in outcomes:
            if outcome.plan in self.plans and outcome.devices == self.devices:
                found = _Rate.of(outcome) if outcome.row["fits"] else DOES_NOT_FIT
                self.known[self._key(scenario, outcome.plan)] = found

    def _key(self, scenario: Scenario, plan: str) -> Hashable:
        """All that a rate may depend on: the plan's options, the batch that it shares with others, and the whole file
        without the table of plans. No part of it is left out for being thought to have no say."""
        search = scenario.searches.get(plan)
        searched = None if search is None else frozen(search.model_dump())
        shared = scenario.at(self.devices).shared_batch(self.devices)
        return plan, scenario.plans[plan], searched, shared, frozen(scenario.file.model_dump(exclude={"plans"}))

    def one(self, scenario: Scenario, plan: str) -> float:
        """The rate of a plan; here and now."""
        key = self._key(scenario, plan)
        if key not in self.known:
            self.known[key] = _rate(scenario, plan, self.devices, self.fidelity, self.weighed, self.searcher)
        return self.known[key].rate


def _rate(
    scenario: Scenario,
    plan: str,
    devices: int,
    fidelity: Fidelity | None,
    weighed: bool,
    searcher: PerProcess[GridSearcher],
) -> _Rate:
    try:
        decided = searcher.here.resolved(scenario, (devices,), (plan,))
    except NothingFitsError:
        return DOES_NOT_FIT
    chosen = fidelity or scenario.file.run.fidelity
    cache = searcher.here.schedule_cache
    outcome = run_case(decided, plan, devices, chosen, exact=False, drawn=False, schedule_cache=cache)
    found = _Rate.of(outcome)
    return found if weighed else found._replace(fits=True)


def _with(scenario: Scenario, devices: int, settings: Mapping[str, Any]) -> Scenario:
    """The scenario at one size with other settings, without the tables that compare its plans."""
    document = without_comparisons(scenario.document, scenario.plans)
    return scenario_of(document, scenario.where, settings, devices=(devices,), laid_out=False)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _required(
    scenario: Scenario,
    solved: Sequence[RequiredTable],
    rates: _Rates,
    workers: Workers,
    progress: Callable[[str], None],
) -> Iterator[RequiredValue]:
    """Solve for the numbers in (0, 1] at which published ratios would hold, each a call of its own; the ratio falls as
    the number grows."""
    ratios = _published_ratios(scenario, rates.plans)
    starts = [_with(scenario, rates.devices, {**wanted.given, "uncertainty.samples": 0}) for wanted in solved]
    calls = (
        (start, wanted.key, plan, ratio, rates)
        for start, wanted in zip(starts, solved, strict=True)
        for plan, ratio in ratios.items()
    )
    values = workers.in_order(_solved, calls)
    for wanted in solved:
        found = {plan: next(values) for plan in ratios}
        yield _required_value(wanted, rates.plans[0], ratios, found)
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


def _solved(scenario: Scenario, key: str, plan: str, wanted: float, rates: _Rates) -> float | None:
    """The number at which a plan's ratio to the first is as wanted."""

    def ratio(value: float) -> float:
        changed = _with(scenario, rates.devices, {key: value})
        return rates.one(changed, plan) / rates.one(changed, rates.plans[0])

    return _solve(ratio, wanted)


def _solve(ratio: Callable[[float], float], wanted: float) -> float | None:
    """The largest number in [SMALLEST, 1] at which the ratio is as wanted, as far as a scan of SCANNED points sees:
    false position (Illinois) in the logarithms of number and ratio, or None where no two neighbours have it between
    them."""

    def miss(x: float) -> float:
        return math.log(ratio(math.exp(x)) / wanted)

    ends = (math.log(SMALLEST), 0.0)
    points = [(x, miss(x)) for x in ends]
    if points[0][1] * points[1][1] > 0.0:  # it may turn in between
        inner = (ends[0] + (ends[1] - ends[0]) * i / (SCANNED + 1) for i in range(1, SCANNED + 1))
        points[1:1] = [(x, miss(x)) for x in inner]
    nearest = min(points, key=lambda point: abs(point[1]))
    if abs(nearest[1]) < CLOSE:
        return math.exp(nearest[0])
    brackets = [(a, b) for a, b in pairwise(points) if a[1] * b[1] <= 0.0]
    if not brackets:
        return None
    (low, at_low), (high, at_high) = brackets[-1]
    for _ in range(MAX_STEPS):
        middle = (low * at_high - high * at_low) / (at_high - at_low)
        now = miss(middle)
        if abs(now) < CLOSE:
            break
        if now * at_low > 0.0:
            low, at_low, at_high = middle, now, at_high / 2
        else:
            high, at_high, at_low = middle, now, at_low / 2
    return math.exp(middle)


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
