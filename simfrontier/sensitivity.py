"""Sensitivity: how the ratio of plans depends on what is unknown, one setting at a time and the same for all plans,
and which value of a number would make a published ratio true."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from simfrontier.io import frozen
from simfrontier.scenario import RequiredTable, Scenario, SensitivityTable, scenario_of
from simfrontier.simulation import Fidelity, fullest
from simfrontier.study import PlanOutcome, ScheduleCache, simulated
from simfrontier.tuning import GridSearcher, NothingFitsError

SMALLEST = 1e-2  # of the numbers in (0, 1] that are solved for
CLOSE = 1e-2  # relative distance to a published ratio at which a solution is good enough
MAX_STEPS = 30
SCANNED = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedRates:
    """One setting at one value: TFLOPS per device by plan (nan where the plan does not fit), which plans fit, and the
    nominal rate of the machine's devices with it."""

    label: str
    key: str
    value: str
    rates: Mapping[str, float]
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
    """Rates of the compared plans at the defaults and under each variation; `strongest` names the largest mover.
    `smaller`: the same at smaller sizes, where a scenario asks for several."""

    devices: int
    plans: tuple[str, ...]
    default: Mapping[str, float]
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
    schedule_cache: ScheduleCache | None = None,
) -> Sensitivity | None:
    """All variations of the scenario's `sensitivity` table; None if it has none. `known`: outcomes of this scenario at
    this fidelity, folded, which are not simulated again; `schedule_cache`: what is built already."""
    table = scenario.file.sensitivity
    if table is None:
        return None
    searcher = GridSearcher(schedule_cache=schedule_cache or ScheduleCache())
    largest, *others = sorted(table.sizes, reverse=True)
    smaller = tuple(_at_size(scenario, table, size, (), fidelity, searcher, known, progress) for size in others)
    sensitivity = _at_size(scenario, table, largest, tuple(table.required), fidelity, searcher, known, progress)
    return replace(sensitivity, smaller=smaller)


def _at_size(
    scenario: Scenario,
    table: SensitivityTable,
    devices: int,
    solved: tuple[RequiredTable, ...],
    fidelity: Fidelity,
    searcher: GridSearcher,
    known: Sequence[PlanOutcome],
    progress: Callable[[str], None],
) -> Sensitivity:
    """All variations at one size, and the values that would make published ratios true."""
    rates = _Rates(fidelity, devices, tuple(table.plans), searcher)
    rates.take(scenario, known)
    default, _ = rates.of(scenario)
    varied = []
    for variation in table.vary:
        for value in variation.values:
            changed = _with(scenario, {variation.key: value})
            result, fits = rates.of(changed)
            varied.append(
                VariedRates(
                    label=variation.label,
                    key=variation.key,
                    value=_text(value),
                    rates=result,
                    fits=fits,
                    peak_flops_per_s=changed.peak_flops_per_s,
                )
            )
            progress(f"{variation.label} = {_text(value)}")
    required = []
    alone = _Rates("analytic", devices, tuple(table.plans), searcher, weighed=False)
    for wanted in solved:
        required.append(_required(_with(scenario, wanted.given), wanted, alone))
        progress(f"what {wanted.label} would have to be")
    return Sensitivity(
        devices=devices,
        plans=tuple(table.plans),
        default=default,
        varied=tuple(varied),
        fidelity=fidelity,
        required=tuple(required),
        strongest=_strongest(tuple(table.plans), default, varied),
    )


@dataclass
class _Rates:
    """TFLOPS per device of the compared plans, and whether they fit (`weighed`: else all do); whatever was simulated
    before is looked up."""

    fidelity: Fidelity
    devices: int
    plans: tuple[str, ...]
    searcher: GridSearcher = field(default_factory=GridSearcher)
    weighed: bool = True
    known: dict[Hashable, tuple[float, bool]] = field(default_factory=dict)

    def of(self, scenario: Scenario) -> tuple[dict[str, float], dict[str, bool]]:
        known = {plan: self.one(scenario, plan) for plan in self.plans}
        rates = {plan: rate if fits else math.nan for plan, (rate, fits) in known.items()}
        return rates, {plan: fits for plan, (_, fits) in known.items()}

    def take(self, scenario: Scenario, outcomes: Sequence[PlanOutcome]) -> None:
        """Note outcomes of a scenario, as far as they are of these plans at this size."""
        for outcome in outcomes:
            if outcome.plan in self.plans and outcome.devices == self.devices:
                fits = bool(outcome.row["fits"])
                rate = float(outcome.row["tflops_per_device"]) if fits else math.nan
                self.known[self._key(scenario, outcome.plan)] = rate, fits

    def _key(self, scenario: Scenario, plan: str) -> Hashable:
        """What a rate depends on."""
        file = scenario.file
        given = file.model_dump(
            include={
                "tune",
                "at",
                "model",
                "training",
                "engine",
                "machine",
                "library",
                "nodes",
                "perturbation",
                "neighbour",
            }
        )
        search = scenario.searches.get(plan)
        searched = None if search is None else frozen(search.model_dump())
        return plan, scenario.plans[plan], searched, file.run.placement, frozen(given)

    def one(self, scenario: Scenario, plan: str) -> tuple[float, bool]:
        key = self._key(scenario, plan)
        if key not in self.known:
            try:
                decided = self.searcher.resolved(scenario, (self.devices,), (plan,))
            except NothingFitsError:
                self.known[key] = math.nan, False
                return self.known[key]
            case = decided.case(plan, self.devices)
            built = self.searcher.schedule_cache.of_case(decided, case)
            step = simulated(decided, built, self.fidelity)
            flops = case.step_flops
            capacity = scenario.machine.device.hbm_bytes
            fits = not self.weighed or fullest(step, built.peaks).peak_bytes <= capacity
            self.known[key] = flops / step.step_s / self.devices / 1e12, fits
        return self.known[key]


def _with(scenario: Scenario, settings: Mapping[str, Any]) -> Scenario:
    return scenario_of(scenario.said, scenario.where, settings)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def _required(scenario: Scenario, wanted: RequiredTable, rates: _Rates) -> RequiredValue:
    """Solve for the number in (0, 1] at which each published ratio would hold; the ratio falls as the number grows."""
    published = scenario.file.published
    first, *others = rates.plans
    known: dict[str, float | None] = {}
    parts = []
    for plan in others:
        ratio = published.ratios.get(plan) if published else None
        if ratio is None:
            continue
        value = known[plan] = _solve(lambda x, plan=plan: _ratio(scenario, wanted.key, x, plan, first, rates), ratio)  # type: ignore[misc]
        if value is None:
            parts.append(f"no value gives the published {plan} : {first} = {ratio:g}")
        else:
            parts.append(f"{plan} : {first} = {ratio:g} would need {value:.2g}")
    now = "" if not wanted.given else " with " + ", ".join(f"{k} = {_text(v)}" for k, v in wanted.given.items())
    return RequiredValue(
        key=wanted.key, label=wanted.label + now, found=known, sentence=f"{wanted.label}{now}: {'; '.join(parts)}"
    )


def _ratio(scenario: Scenario, key: str, value: float, plan: str, first: str, rates: _Rates) -> float:
    changed = _with(scenario, {key: value})
    return rates.one(changed, plan)[0] / rates.one(changed, first)[0]


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
    return f"{most.label} = {most.value} moves {plan} most, from {base:.1f} to {most.rates[plan]:.1f} TFLOPS"


def _ratios(varied: list[VariedRates], first: str, last: str) -> Iterator[tuple[VariedRates, float]]:
    for one in varied:
        ratio = one.rates[last] / one.rates[first]
        if not math.isnan(ratio):
            yield one, ratio
