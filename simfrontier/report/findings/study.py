"""All findings of a study, and the file that a program reads them from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from simfrontier.report.findings.assumptions import Assumptions, assumptions_of
from simfrontier.report.findings.breakdown import Breakdown, breakdown_of
from simfrontier.report.findings.headline import Headline, headline_of
from simfrontier.report.findings.memory import MemoryUse, memory_use
from simfrontier.report.findings.ranking import Ranking, ranking_of
from simfrontier.report.findings.scaling import ScaledPlan, scaling_of
from simfrontier.report.findings.setup import Setup, setup_of
from simfrontier.report.findings.timeline import CriticalRank, critical_ranks
from simfrontier.report.findings.traffic import Traffic, traffic_of
from simfrontier.report.view import StudyView
from simfrontier.wholefile import write_json

if TYPE_CHECKING:
    from simfrontier.report.findings.earlier import Earlier
    from simfrontier.report.findings.pipeline import Pipeline
    from simfrontier.report.findings.published import Published
    from simfrontier.report.findings.ranks import RankGrids
    from simfrontier.report.findings.sensitivity import Variations


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFindings:
    """What the page of a study says in its sections of these names, and `setup`, what was simulated. None where it has
    nothing to say."""

    setup: Setup
    headline: Headline
    published: Published | None
    earlier: Earlier | None
    ranks: RankGrids | None
    scaling: Mapping[str, tuple[ScaledPlan, ...]]
    probability: Ranking
    time: Breakdown
    sensitivity: Variations | None
    pipeline: tuple[Pipeline, ...] | None
    timeline: tuple[CriticalRank, ...]
    traffic: Traffic
    memory: MemoryUse
    assumptions: Assumptions


def findings_of(view: StudyView) -> StudyFindings:
    """The findings of a study: the values that its page is made from."""
    return StudyFindings(
        setup=setup_of(view),
        headline=headline_of(view),
        published=_published(view),
        earlier=_earlier(view),
        ranks=_ranks(view),
        scaling=scaling_of(view),
        probability=ranking_of(view),
        time=breakdown_of(view),
        sensitivity=_sensitivity(view),
        pipeline=_pipeline(view),
        timeline=critical_ranks(view),
        traffic=traffic_of(view),
        memory=memory_use(view),
        assumptions=assumptions_of(view),
    )


def write_findings(found: StudyFindings, path: Path) -> None:
    """Write a study's findings as JSON, in the units that their names say; sizes that are keys are text there. Raises
    InputError where the file cannot be written."""
    write_json(asdict(found), path)


# What most studies have no use for is imported where it is.


def _published(view: StudyView) -> Published | None:
    if view.scenario.file.published is None:
        return None
    from simfrontier.report.findings.published import published_of

    return published_of(view)


def _earlier(view: StudyView) -> Earlier | None:
    if view.scenario.file.earlier is None:
        return None
    from simfrontier.report.findings.earlier import earlier_of

    return earlier_of(view)


def _ranks(view: StudyView) -> RankGrids | None:
    if not view.has_grids:
        return None
    from simfrontier.report.findings.ranks import rank_grids

    return rank_grids(view)


def _sensitivity(view: StudyView) -> Variations | None:
    if view.sensitivity is None:
        return None
    from simfrontier.report.findings.sensitivity import variations_of

    return variations_of(view, view.sensitivity)


def _pipeline(view: StudyView) -> tuple[Pipeline, ...] | None:
    if not view.piped:
        return None
    from simfrontier.report.findings.pipeline import pipelines_of

    return pipelines_of(view)
