"""Bytes per link and measured times of an emulated run, and the limits on their difference from the simulation."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median
from typing import Final, Literal, NamedTuple

from simfrontier.base.io import Positive, Strict, read_json, typed
from simfrontier.base.wholefile import write_json
from simfrontier.core.trace import CrossCheck, LinkTable, step_times

Implementation = Literal["lowered", "native"]
JUDGED_BYTES: Final = 1e6  # a link that carries no more than this in a step is not judged: headers are too much of it
WITHIN: Final = 0.03  # how far counted bytes may lie from the simulated ones
ALLOWED: Final[dict[Implementation, float]] = {"lowered": 0.10, "native": 0.20}  # of the median of collectives
LEAST_JUDGED_BYTES: Final = 1 << 20  # the smallest message that the medians are over
STEP_WITHIN: Final = 0.15
CHANGED_WITHIN: Final = 0.10
EMULATED: Final = "emulated.json"


# ── links ──


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkPair:
    """One direction of a link: its simulated bytes in a step, and its counted bytes."""

    name: str
    link_class: str
    src: str
    dst: str
    sim_bytes: float
    real_bytes: float

    @property
    def ratio(self) -> float:
        """Counted over simulated bytes; infinite if no bytes were simulated, NaN if there are neither simulated nor
        counted bytes."""
        if self.sim_bytes:
            return self.real_bytes / self.sim_bytes
        return math.inf if self.real_bytes else math.nan

    @property
    def apart(self) -> float:
        """|counted / simulated - 1|; 0 for a link that is idle in both."""
        return abs(self.ratio - 1.0) if self.sim_bytes or self.real_bytes else 0.0

    @property
    def is_judged(self) -> bool:
        """True if the link carries enough bytes in the simulation or in the run."""
        return max(self.sim_bytes, self.real_bytes) > JUDGED_BYTES

    @property
    def is_missed(self) -> bool:
        """True if the link is judged and its difference is too large."""
        return self.is_judged and abs(self.real_bytes - self.sim_bytes) > WITHIN * self.sim_bytes


@dataclass(frozen=True, kw_only=True)
class LinkCheck:
    """A plan's simulated and counted bytes per link, joined by link name in the order of the simulated table."""

    plan: str
    sim_title: str
    real_title: str
    pairs: tuple[LinkPair, ...]

    @cached_property
    def judged(self) -> tuple[LinkPair, ...]:
        """The judged links, the one with the largest difference first."""
        return tuple(sorted((pair for pair in self.pairs if pair.is_judged), key=lambda pair: -pair.apart))

    @property
    def num_missed(self) -> int:
        return sum(pair.is_missed for pair in self.judged)

    @cached_property
    def by_class(self) -> Mapping[str, list[LinkPair]]:
        """The links of every class, in the order in which the classes appear."""
        out: dict[str, list[LinkPair]] = {}
        for pair in self.pairs:
            out.setdefault(pair.link_class, []).append(pair)
        return out


def compare_links(plan: str, sim: LinkTable, real: LinkTable) -> LinkCheck:
    """Join two tables of one schedule by link name; a link missing in one of them counts as 0 bytes there."""
    simulated, counted = ({link.name: link for link in table.links} for table in (sim, real))
    pairs = [
        LinkPair(
            name=name,
            link_class=link.link_class,
            src=link.src,
            dst=link.dst,
            sim_bytes=simulated[name].num_bytes if name in simulated else 0.0,
            real_bytes=counted[name].num_bytes if name in counted else 0.0,
        )
        for name, link in ({**simulated, **counted}).items()
    ]
    return LinkCheck(plan=plan, sim_title=sim.title, real_title=real.title, pairs=tuple(pairs))


class LinksFound(NamedTuple):
    """Findings on the bytes of links: number of judged link directions of all plans (those that carry more than
    `least_bytes`), number of those whose difference exceeds `within`, and the worst one with its plan."""

    num_plans: int
    num_judged: int
    num_missed: int
    worst: LinkPair | None
    worst_plan: str
    least_bytes: float = JUDGED_BYTES
    within: float = WITHIN


def links_found(checks: Sequence[LinkCheck]) -> LinksFound:
    """Return the findings on the bytes of links."""
    judged = [(pair, each.plan) for each in checks for pair in each.judged]
    worst, plan = max(judged, key=lambda one: one[0].apart, default=(None, ""))
    return LinksFound(len(checks), len(judged), sum(each.num_missed for each in checks), worst, plan)


# ── collectives alone ──


class SweepPoint(Strict):
    """Times of one collective at one message size, run as explicit transfers (`lowered`) or by the library (`native`).

    `group`: the ranks, e.g. "world (16)". `real_s`: the median over iterations.
    """

    collectives: Implementation
    kind: str
    group: str
    message_bytes: Positive
    sim_s: Positive
    real_s: Positive

    @property
    def ratio(self) -> float:
        """Measured over simulated time."""
        return self.real_s / self.sim_s


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepMedian:
    """Medians for one kind of collective over one group by one implementation, over the judged message sizes: measured
    over simulated time (`ratio`), and |measured / simulated - 1| (`apart`)."""

    collectives: Implementation
    kind: str
    group: str
    num_sizes: int
    ratio: float
    apart: float

    @property
    def is_near(self) -> bool:
        return self.apart <= ALLOWED[self.collectives]


def sweep_medians(points: Sequence[SweepPoint]) -> tuple[SweepMedian, ...]:
    """Return the medians by implementation, kind and group, in order of appearance; none if no size is judged."""
    alike: dict[tuple[Implementation, str, str], list[float]] = {}
    for point in points:
        if point.message_bytes >= LEAST_JUDGED_BYTES:
            alike.setdefault((point.collectives, point.kind, point.group), []).append(point.ratio)
    return tuple(
        SweepMedian(
            collectives=way,
            kind=kind,
            group=group,
            num_sizes=len(ratios),
            ratio=median(ratios),
            apart=median(abs(ratio - 1) for ratio in ratios),
        )
        for (way, kind, group), ratios in alike.items()
    )


class SweptWay(NamedTuple):
    """Findings on collectives measured alone by one implementation: number of (kind, group) with messages of at least
    `least_bytes`, number of those within the limit, and the one with the largest difference."""

    collectives: Implementation
    allowed: float
    num_judged: int
    num_near: int
    worst: SweepMedian | None
    least_bytes: int = LEAST_JUDGED_BYTES


def swept_ways(points: Sequence[SweepPoint]) -> tuple[SweptWay, ...]:
    """Return the findings on collectives that were measured alone, by implementation."""
    ways = []
    for way, allowed in ALLOWED.items():
        if any(point.collectives == way for point in points):
            medians = [each for each in sweep_medians(points) if each.collectives == way]
            worst = max(medians, key=lambda each: each.apart, default=None)
            ways.append(SweptWay(way, allowed, len(medians), sum(each.is_near for each in medians), worst))
    return tuple(ways)


# ── a slowed link, and the file of a run ──


class SlowLinkEffect(Strict):
    """Times of `what` (a step, or one collective) with all links healthy, and with `link` at `factor` of its rate:
    always, or from `begin_s` to `end_s`, in seconds after the begin of the step."""

    what: str
    link: str
    factor: float
    sim_s: Positive
    sim_slowed_s: Positive
    real_s: Positive
    real_slowed_s: Positive
    begin_s: float | None = None
    end_s: float | None = None

    @property
    def condition(self) -> str:
        """Description of the slowed link and the fraction of its rate."""
        when = "" if self.begin_s is None else f" from {self.begin_s:.3g} to {self.end_s:.3g} s"
        return f"{self.link} at {self.factor:g} of its rate{when}"

    @property
    def apart(self) -> float:
        """Relative difference of real and simulated: of the slowed times if the link was slowed temporarily, otherwise
        of the effects."""
        ratio = self.real_effect / self.sim_effect if self.begin_s is None else self.real_slowed_s / self.sim_slowed_s
        return abs(ratio - 1.0)

    @property
    def sim_effect(self) -> float:
        """Simulated time with the slowed link relative to that with a healthy link."""
        return self.sim_slowed_s / self.sim_s

    @property
    def real_effect(self) -> float:
        """Measured time with the slowed link relative to that with a healthy link."""
        return self.real_slowed_s / self.real_s


class EmulatedRun(Strict):
    """`sweep`: collectives measured alone; `slowed`: effects of a slowed link."""

    sweep: tuple[SweepPoint, ...] = ()
    slowed: tuple[SlowLinkEffect, ...] = ()


def save_run(run: EmulatedRun, path: Path) -> None:
    """Write the file. Raises InputError where it cannot be written."""
    write_json(run.model_dump(), path)


def load_run(path: Path) -> EmulatedRun:
    """Read the file. Raises InputError: file, place, fault."""
    return typed(read_json(path, "file of an emulated run"), EmulatedRun, str(path))


# ── limits ──


@dataclass(frozen=True, slots=True)
class AgreementLimit:
    """A limit on the agreement of run and simulation; `seen` and `allowed` are relative differences (None for a yes/no
    check)."""

    what: str
    allowed: float | None
    seen: float | None
    holds: bool


def limits_of(
    check: CrossCheck, links: Sequence[LinkCheck], sweep: Sequence[SweepPoint], slowed: Sequence[SlowLinkEffect]
) -> Iterator[AgreementLimit]:
    """Yield the limits of an emulated run: same operations in run and simulation, bytes of links, times of collectives
    measured alone, step times and the ranking of plans, and the effect of a slowed link.

    A slowed link must slow both the run and the simulation by more than the tolerance of step times, and by factors
    that agree within this tolerance; a step with a temporarily slowed link must take the simulated time.
    """
    same = check.verdict.is_exact and not check.only_sim and not check.only_real
    yield AgreementLimit("the same operations ran in both", None, None, same)
    if judged := [pair.apart for each in links for pair in each.judged]:
        what = f"bytes of {len(judged)} link directions, the worst"
        yield AgreementLimit(what, WITHIN, max(judged), not any(each.num_missed for each in links))
    else:
        what = "bytes of links were counted" + (", none enough to judge" if links else "")
        yield AgreementLimit(what, None, None, bool(links))
    for each in sweep_medians(sweep):
        what = f"{each.kind.replace('_', '-')} over {each.group}, {each.collectives}"
        yield AgreementLimit(what, ALLOWED[each.collectives], each.apart, each.is_near)
    for plan in check.comparisons:
        apart = abs(step_times(plan).ratio - 1.0)
        yield AgreementLimit(f"step of {plan.plan}", STEP_WITHIN, apart, apart <= STEP_WITHIN)
    if len(check.comparisons) > 1:
        yield AgreementLimit("the plans rank alike", None, None, check.verdict.ranking != "differ")
    for effect in slowed:
        within = STEP_WITHIN if effect.begin_s is None else CHANGED_WITHIN
        shown = min(effect.sim_effect, effect.real_effect) > 1.0 + STEP_WITHIN
        what = f"{effect.what} with {effect.condition}"
        yield AgreementLimit(what, within, effect.apart, shown and effect.apart <= within)
