"""All findings of a study, and the file that a program reads them from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.plan import TensorOptions
from simfrontier.records import dataclass
from simfrontier.report.findings.assumptions import Assumptions, assumptions_of
from simfrontier.report.findings.breakdown import Breakdown, breakdown_of
from simfrontier.report.findings.headline import Headline, headline_of
from simfrontier.report.findings.memory import MemoryUse, memory_use
from simfrontier.report.findings.ranking import Ranking, ranking_of
from simfrontier.report.findings.scaling import ScaledPlan, scaling_of
from simfrontier.report.findings.setup import Setup, setup_of
from simfrontier.report.findings.timeline import CriticalRank, critical_ranks
from simfrontier.report.findings.traffic import Traffic, traffic_of
from simfrontier.report.sections import sections_found
from simfrontier.report.view import StudyView
from simfrontier.wholefile import write_json

if TYPE_CHECKING:
    from simfrontier.experiments import Environment
    from simfrontier.report.findings.pipeline import Pipeline
    from simfrontier.report.findings.published import Published
    from simfrontier.report.findings.ranks import RankGrids
    from simfrontier.report.findings.sensitivity import Variations
    from simfrontier.report.findings.slowdown import SlowdownFindings


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFindings:
    """What the page of a study says in its sections of these names, and `setup`, what was simulated. None where it has
    nothing to say."""

    setup: Setup
    headline: Headline
    scaling: Mapping[str, tuple[ScaledPlan, ...]]
    probability: Ranking
    time: Breakdown
    timeline: tuple[CriticalRank, ...]
    traffic: Traffic
    memory: MemoryUse
    assumptions: Assumptions
    published: Published | None = None
    ranks: RankGrids | None = None
    sensitivity: Variations | None = None
    slowdown: SlowdownFindings | None = None
    environment: Environment | None = None
    pipeline: tuple[Pipeline, ...] | None = None


def findings_of(view: StudyView) -> StudyFindings:
    """The findings of a study: the values that its page is made from."""
    return StudyFindings(
        setup=setup_of(view),
        headline=headline_of(view),
        scaling=scaling_of(view),
        probability=ranking_of(view),
        time=breakdown_of(view),
        timeline=critical_ranks(view),
        traffic=traffic_of(view),
        memory=memory_use(view),
        assumptions=assumptions_of(view),
        environment=view.environment,
        **_rare(view),
    )


def write_findings(found: StudyFindings, view: StudyView, path: Path) -> None:
    """Write a study's findings as JSON, in the units that their names say, those of extras' sections by their names;
    sizes that are keys are text there. Raises InputError where the file cannot be written."""
    of_extras = {section.name: asdict(one) for section, one in sections_found(view)}
    document = {**asdict(found), **of_extras}
    if found.slowdown is None:  # of a scenario that does not ask for it there is no word
        del document["slowdown"]
    write_json(document, path)


def _rare(view: StudyView) -> dict[str, Any]:
    """Findings that most studies have no use for, by their names: they are imported only where they are needed."""
    made: dict[str, Any] = {}
    if view.scenario.file.published is not None:
        from simfrontier.report.findings.published import published_of

        made["published"] = published_of(view)
    if view.searches or any(isinstance(case.options, TensorOptions) for case in view.cases.values()):
        from simfrontier.report.findings.ranks import rank_grids

        made["ranks"] = rank_grids(view)
    if view.sensitivity is not None:
        from simfrontier.report.findings.sensitivity import variations_of

        made["sensitivity"] = variations_of(view, view.sensitivity)
    if view.slowdown is not None:
        from simfrontier.report.findings.slowdown import slowdown_of

        made["slowdown"] = slowdown_of(view.slowdown)
    if view.piped:
        from simfrontier.report.findings.pipeline import pipelines_of

        made["pipeline"] = pipelines_of(view)
    return made
