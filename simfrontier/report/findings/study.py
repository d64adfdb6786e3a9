"""All findings of a study, and the file that a program reads them from."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from simfrontier.report.findings.breakdown import Breakdown, breakdown_of
from simfrontier.report.findings.headline import Headline, headline_of
from simfrontier.report.findings.memory import MemoryUse, memory_use
from simfrontier.report.findings.traffic import Traffic, traffic_of
from simfrontier.report.sections import sections_found
from simfrontier.report.view import StudyView
from simfrontier.study import Study
from simfrontier.wholefile import write_json


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyFindings:
    """What the page of a study says in its sections of these names."""

    headline: Headline
    time: Breakdown
    memory: MemoryUse
    traffic: Traffic


def findings_of(study: Study) -> StudyFindings:
    """The findings of a study: the values that its page is made from."""
    view = StudyView(study=study)
    return StudyFindings(
        headline=headline_of(view), time=breakdown_of(view), memory=memory_use(view), traffic=traffic_of(view)
    )


def write_findings(study: Study, path: Path) -> None:
    """Write a study's findings as JSON, in the units that their names say, those of extras' sections by their names;
    sizes that are keys are text there. Raises InputError where the file cannot be written."""
    of_extras = {section.name: asdict(found) for section, found in sections_found(StudyView(study=study))}
    write_json({**asdict(findings_of(study)), **of_extras}, path)
