"""What a cross-check comes to: the order of the plans on both sides, how many links are off, and collectives alone."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.records import dataclass
from simfrontier.trace import (
    ALLOWED,
    JUDGED_BYTES,
    LEAST_JUDGED_BYTES,
    WITHIN,
    AgreementLimit,
    CrossCheck,
    Implementation,
    LinkCheck,
    LinkPair,
    PlanStepTimes,
    SweepMedian,
    SweepPoint,
    limits_of,
    step_times,
    sweep_medians,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinksFound:
    """Link directions of all plans that carry more than `least_bytes` and so are judged, how many are more than
    `within` off, and the worst with its plan."""

    num_plans: int
    num_judged: int
    num_missed: int
    worst: LinkPair | None
    worst_plan: str
    least_bytes: float = JUDGED_BYTES
    within: float = WITHIN


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


@dataclass(frozen=True, slots=True, kw_only=True)
class CrossCheckFindings:
    """What follows from a cross-check. `num_operations`: compared, counted on every rank; `sim_order` and `real_order`:
    plans, the fastest first; `limits`: of an emulated run, none of any other."""

    check: CrossCheck
    num_operations: int
    steps: tuple[PlanStepTimes, ...]
    sim_order: tuple[str, ...]
    real_order: tuple[str, ...]
    limits: tuple[AgreementLimit, ...]
    links: LinksFound | None
    swept: tuple[SweptWay, ...]

    @property
    def missed_limits(self) -> tuple[AgreementLimit, ...]:
        return tuple(limit for limit in self.limits if not limit.holds)


def crosscheck_findings(check: CrossCheck) -> CrossCheckFindings:
    """What follows from a cross-check."""
    steps = tuple(map(step_times, check.comparisons))
    return CrossCheckFindings(
        check=check,
        num_operations=sum(len(each.pairs) for each in check.comparisons),
        steps=steps,
        sim_order=tuple(step.plan for step in sorted(steps, key=lambda step: step.sim_s)),
        real_order=tuple(step.plan for step in sorted(steps, key=lambda step: step.real_s)),
        limits=limits_of(check) if check.sweep else (),
        links=links_found(check.links) if check.links else None,
        swept=swept_ways(check.sweep),
    )


def links_found(checks: Sequence[LinkCheck]) -> LinksFound:
    """What follows from the bytes of links."""
    judged = [(pair, each.plan) for each in checks for pair in each.judged]
    worst, plan = max(judged, key=lambda one: one[0].apart, default=(None, ""))
    num_missed = sum(each.num_missed for each in checks)
    return LinksFound(
        num_plans=len(checks), num_judged=len(judged), num_missed=num_missed, worst=worst, worst_plan=plan
    )


def swept_ways(points: Sequence[SweepPoint]) -> tuple[SweptWay, ...]:
    """What follows from collectives that were measured alone, by implementation."""
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
