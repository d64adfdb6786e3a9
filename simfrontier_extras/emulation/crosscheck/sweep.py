"""Collectives by message size, simulated and measured alone: the points, medians over large sizes, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final, Literal

from simfrontier.base.io import Positive, Strict

Implementation = Literal["lowered", "native"]
# How far the median may lie from the simulated time.
ALLOWED: Final[dict[Implementation, float]] = {"lowered": 0.10, "native": 0.20}
LEAST_JUDGED_BYTES: Final = 1 << 20  # the smallest message that the medians are over


class SweepPoint(Strict):
    """One collective of one size: as explicit transfers (`lowered`) or the library's own (`native`).

    `group`: the ranks, e.g. "world (16)". `real_s` is a median over iterations.
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
    """A kind of collective over one group by one implementation: the medians over its judged sizes."""

    collectives: Implementation
    kind: str
    group: str
    num_sizes: int
    ratio: float  # of measured over simulated
    apart: float  # of |measured / simulated - 1|

    @property
    def is_near(self) -> bool:
        return self.apart <= ALLOWED[self.collectives]


def sweep_medians(points: Sequence[SweepPoint]) -> tuple[SweepMedian, ...]:
    """The medians by implementation, kind and group, in the order in which these appear; none where no size is
    judged."""
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptWay:
    """Collectives that were measured alone by one implementation: kinds and groups with messages of `least_bytes` or
    more, how many are near enough, and the one that is farthest."""

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
            ways.append(
                SweptWay(
                    collectives=way,
                    allowed=allowed,
                    num_judged=len(medians),
                    num_near=sum(each.is_near for each in medians),
                    worst=max(medians, key=lambda each: each.apart, default=None),
                )
            )
    return tuple(ways)
