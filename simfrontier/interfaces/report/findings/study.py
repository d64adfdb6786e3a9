"""All findings of a study, and the file that a program reads them from."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from simfrontier.base.wholefile import write_whole
from simfrontier.interfaces.report.findings.assumptions import assumptions_of
from simfrontier.interfaces.report.findings.breakdown import waiting_of
from simfrontier.interfaces.report.findings.headline import headline_of
from simfrontier.interfaces.report.findings.published import published_of
from simfrontier.interfaces.report.findings.ranking import ranking_of
from simfrontier.interfaces.report.findings.ranks import rank_grids
from simfrontier.interfaces.report.findings.sensitivity import variations_of
from simfrontier.interfaces.report.findings.setup import setup_of
from simfrontier.interfaces.report.findings.slowdown import slowdown_of
from simfrontier.interfaces.report.findings.traffic import link_loads
from simfrontier.interfaces.report.sections import sections_found
from simfrontier.interfaces.report.view import StudyView

Findings: TypeAlias = Mapping[str, Any]
"""Findings of a study by the names of its page's sections, None where there are none: `setup`, what was
simulated; `rows`, the rows of results by plan; and what is worked out from them."""


def findings_of(view: StudyView) -> Findings:
    """The findings of a study: the values that its page is made from."""
    return {
        "setup": setup_of(view),
        "rows": view.rows,
        "headline": headline_of(view),
        "probability": ranking_of(view),
        "waiting": waiting_of(view),
        "links": link_loads(view),
        "memory": {o.plan: {kind: held for kind, held in o.at_peak.items() if held} for o in view.drawn},
        "assumptions": assumptions_of(view),
        "published": published_of(view),
        "ranks": rank_grids(view),
        "sensitivity": variations_of(view),
        "slowdown": slowdown_of(view.slowdown),
        "environment": view.environment,
    }


def write_findings(found: Findings, view: StudyView, path: Path) -> None:
    """Write a study's findings as JSON, in the units that their names say, those of extras' sections by their names;
    sizes that are keys are text there. Raises InputError where the file cannot be written."""
    document = {**found, **{section.name: one for section, one in sections_found(view)}}
    if found["slowdown"] is None:  # of a scenario that does not ask for it there is no word
        del document["slowdown"]
    write_whole(path, json.dumps(document, default=asdict, separators=(",", ":"), allow_nan=False) + "\n")
