"""A job beside the nearest published run: what both should take, and which differences explain how much."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from typing import Any, Final, Literal

from simfrontier.answers.accuracy import JobFacts, ListedRun, job_of, listed_runs, run_named, step_factor
from simfrontier.answers.explain.job_groups import GROUPS, Group, JobGroups, job_groups
from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.base.io import flat

RUNS: Final = "runs"  # what a plan is explained against, for the nearest of all published runs
MOST_NEAR: Final = 5  # runs that are named
SAME_PEAK: Final = 1e-3  # difference of the logarithms of rounded peaks
Unit = Literal["tokens/s", "TFLOPS"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedJob:
    """One of two compared jobs. `step_s`: its predicted step in seconds. `predicted`: its rate per device, with the
    ends of the 90 % interval of a measurement, `low` and `high`; `measured` (None: not known), all in tokens per second
    or the model's TFLOPS."""

    facts: JobFacts
    machine: str
    stack: str
    step_s: float
    predicted: float
    low: float
    high: float
    measured: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """Groups of settings that differ, in words (`what`), with the settings that differ, by dotted key, in your job and
    in theirs. `factor`: rate with your settings relative to theirs, the geometric mean of two orders: groups change
    from one job to the other one after the other, and in the opposite order, from either job.
    """

    what: str
    yours: Mapping[str, Any]
    theirs: Mapping[str, Any]
    factor: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AgainstPublished:
    """A job (`yours`) beside a published run (`theirs`) of this name, with the value as printed and the source; rates
    per device in `unit`: tokens/s if both are of one model, else the model's TFLOPS.

    `distance`: of the run from the job, and `others`, the next nearest. `differences`: their factors multiply
    to `predicted_ratio`, the largest first. `error`: factor within which nine of ten measured ratios of two such jobs
    are of the predicted one.
    """

    run: str
    title: str
    printed: str
    source: str
    unit: Unit
    yours: ComparedJob
    theirs: ComparedJob
    distance: float
    others: tuple[tuple[str, float], ...]
    differences: tuple[Difference, ...]
    error: float

    @property
    def predicted_ratio(self) -> float:
        """Your predicted rate relative to theirs."""
        return self.yours.predicted / self.theirs.predicted

    @property
    def measured_ratio(self) -> float | None:
        """Your measured rate relative to theirs; None if yours is not known."""
        mine, theirs = self.yours.measured, self.theirs.measured
        return None if mine is None or theirs is None else mine / theirs

    @property
    def unexplained(self) -> float | None:
        """Factor that is left: the measured ratio relative to the predicted one; None if yours was not measured."""
        return None if self.measured_ratio is None else self.measured_ratio / self.predicted_ratio

    @property
    def is_within_error(self) -> bool | None:
        """Return whether what is left is within the model's error of such a ratio."""
        left = self.unexplained
        return None if left is None else 1.0 / self.error <= left <= self.error


def names_runs(name: str | None, plans: Collection[str]) -> bool:
    """Return whether a name is that of published runs, or of one, and of no plan. Raises InputError for a line of their
    tables that is no run."""
    if name is None or name in plans:
        return False
    if name.lower() == RUNS or run_named(name) is not None:
        return True
    if ".csv" in name:
        names = [run.name for run in listed_runs()]
        raise InputError(f"against: no published run {shown(name)}; {nearest(name, names)}")
    return False


def against_published(mine: JobGroups, run: ListedRun | None, measured: float | None = None) -> AgainstPublished:
    """Compare a job with a published run (None: the nearest). `measured`: the job's own tokens per second and device.
    Raises InputError."""
    far = {each.name: distance(mine, each) for each in listed_runs()}
    near = sorted(listed_runs(), key=lambda each: far[each.name])
    chosen = near[0] if run is None else run
    theirs = job_groups(job_of(chosen.run))
    unit: Unit = "tokens/s" if mine.facts.is_of_model(theirs.facts) else "TFLOPS"
    factor = step_factor(mine.peak_flops_per_s, mine.model)
    measured_s = None if measured is None else mine.facts.tokens / mine.facts.devices / measured
    return AgainstPublished(
        run=chosen.name,
        title=chosen.run.title,
        printed=f"{chosen.run['value']} {chosen.run.unit}",
        source=chosen.run["source"] or chosen.run["system"],
        unit=unit,
        yours=_compared(mine, unit, factor, measured_s),
        theirs=_compared(theirs, unit, chosen.factor, chosen.row.measured_s),
        distance=far[chosen.name],
        others=tuple((each.name, far[each.name]) for each in near if each is not chosen)[: MOST_NEAR - 1],
        differences=tuple(_differences(mine, theirs, unit)),
        error=math.exp(math.hypot(math.log(factor), math.log(chosen.factor))),
    )


def _compared(job: JobGroups, unit: Unit, factor: float, measured_s: float | None) -> ComparedJob:
    """Return a job in a unit. `factor`: from its rate to the ends of the 90 % interval; `measured_s`: its measured
    step."""
    predicted = _rate(job.facts, job.step_s, unit)
    return ComparedJob(
        facts=job.facts,
        machine=job.machine,
        stack=job.stack,
        step_s=job.step_s,
        predicted=predicted,
        low=predicted / factor,
        high=predicted * factor,
        measured=None if measured_s is None else _rate(job.facts, measured_s, unit),
    )


def _rate(facts: JobFacts, step_s: float, unit: Unit) -> float:
    """Return the rate of a step per device."""
    return facts.tokens_per_s_per_device(step_s) if unit == "tokens/s" else facts.tflops_per_device(step_s)


def distance(mine: JobGroups, run: ListedRun) -> float:
    """Return how far a published run is from a job: the sum of what differs, weighted so that model and devices come
    first (assumed; docs/how-to/published.md)."""
    own, other, row = mine.facts, run.facts, run.row
    peak = mine.peak_flops_per_s / (row.peak_tflops * 1e12)
    other_device, other_model = abs(math.log(peak)) > SAME_PEAK, not own.is_of_model(other)
    doublings = {  # weight of each doubling, ratios
        3.0: [own.billions / other.billions if other_model else 1.0],
        1.0: [peak],
        0.5: [own.devices / other.devices, own.sequence / other.sequence],
        0.25: [
            own.tokens / own.devices / other.tokens * other.devices,
            *(getattr(own, axis) / getattr(other, axis) for axis in ("tensor", "pipeline", "context", "expert")),
        ],
    }
    differ = {
        16.0: [mine.model != row.model, bool(own.lora_rank) != bool(other.lora_rank)],
        3.0: [other_model, other_device],
        1.0: [own.precision != other.precision],
        0.5: [mine.machine != row.machine, own.checkpointing != other.checkpointing, mine.stack != row.stack],
        0.25: [own.data != other.data],
    }
    far = sum(weight * abs(math.log2(ratio)) for weight, ratios in doublings.items() for ratio in ratios)
    return far + sum(weight * sum(each) for weight, each in differ.items())


# ── which differences explain how much ──


def _differences(mine: JobGroups, theirs: JobGroups, unit: Unit) -> list[Difference]:
    """Return the differences of two jobs with their factors, the largest first."""
    found = []
    for names, factor in _Path(mine, theirs, unit).factors().items():
        yours, other = (flat({name: job.groups[name] for name in names}) for job in (mine, theirs))
        keys = [key for key in dict.fromkeys((*yours, *other)) if yours.get(key) != other.get(key)]
        found.append(
            Difference(
                what=" and ".join(GROUPS[name] for name in names),
                yours={key: yours[key] for key in keys if key in yours},
                theirs={key: other[key] for key in keys if key in other},
                factor=factor,
            )
        )
    return sorted(found, key=lambda each: -abs(math.log(each.factor)))


Taken = frozenset[Group]
Groups = tuple[Group, ...]


class _Path:
    """Jobs between two: some groups of settings are of the first job, the groups that are `taken` of the second."""

    def __init__(self, first: JobGroups, second: JobGroups, unit: Unit) -> None:
        self.first, self.second, self.unit = first, second, unit
        self.differing = tuple(name for name in GROUPS if first.groups[name] != second.groups[name])
        self._rates = {
            Taken(): self._rate_of(first),
            Taken(self.differing): self._rate_of(second),
        }

    def factors(self) -> dict[Groups, float]:
        """Return the factor of each group of settings, or of several groups that only change together: the rate with
        those of the first job relative to the rate with those of the second. The inverse of those with both jobs
        exchanged, as each order is walked from either job."""
        units: list[Groups] = [(name,) for name in self.differing]
        while True:
            walks = [self._walk(order, back) for order in (units, units[::-1]) for back in (False, True)]
            joined = _joined(names for walk in walks for names in walk)
            if len(joined) == len(units):
                return {names: math.prod(walk[names] for walk in walks) ** (1 / len(walks)) for names in joined}
            units = joined

    def _walk(self, units: Sequence[Groups], back: bool) -> dict[Groups, float]:
        """Change units one after the other, from the first job to the second or `back`, as far as the jobs can be laid
        out: else the next one first, or as few together as can."""
        taken, left, out = Taken(self.differing if back else ()), list(units), {}
        while left:
            chosen = next(some for some in _some(left) if self._rate(taken ^ Taken(chain(*some))))
            after = taken ^ Taken(chain(*chosen))
            factor = self._rate(taken) / self._rate(after)
            out[_in_order(chain(*chosen))] = 1.0 / factor if back else factor
            taken, left = after, [unit for unit in left if unit not in chosen]
        return out

    def _rate(self, taken: Taken) -> float:
        """Return the rate of a job between; 0 if it cannot be laid out."""
        if taken not in self._rates:
            job = self.first.with_groups(self.second, taken)
            self._rates[taken] = 0.0 if job is None else self._rate_of(job)
        return self._rates[taken]

    def _rate_of(self, job: JobGroups) -> float:
        return _rate(job.facts, job.step_s, self.unit)


def _in_order(names: Iterable[Group]) -> Groups:
    return tuple(sorted(names, key=list(GROUPS).index))


def _joined(units: Iterable[Groups]) -> list[Groups]:
    """Return the smallest units that each of some contains or is apart from, in the order of groups."""
    joined: list[set[Group]] = []
    for names in units:
        met = [each for each in joined if each & {*names}]
        joined = [*(each for each in joined if each not in met), set(names).union(*met)]
    return sorted(map(_in_order, joined), key=lambda names: list(GROUPS).index(names[0]))


def _some(units: Sequence[Groups]) -> Iterator[tuple[Groups, ...]]:
    """Yield each unit alone, then each two of them, and so on."""
    for count in range(1, len(units) + 1):
        yield from combinations(units, count)
