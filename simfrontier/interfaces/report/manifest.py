"""manifest.json: what went into a study, as digests and versions; no times and no absolute paths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simfrontier.answers.study import Study, inputs, versions
from simfrontier.base.wholefile import write_whole


def manifest(study: Study) -> dict[str, Any]:
    """The inputs (the scenario's document with all settings, and the numbers of machine and library), the versions that
    computed with them, and the digest of every schedule by plan and size."""
    scenario = study.scenario
    schedules: dict[str, dict[str, str]] = {}
    for outcome in study.outcomes:
        schedules.setdefault(outcome.plan, {})[str(outcome.devices)] = str(outcome.row["schedule_digest"])
    return {
        "scenario": scenario.name,
        "file": Path(scenario.where).name,
        "fidelity": study.fidelity,
        "inputs": inputs(scenario),
        "settings": scenario.document,
        "versions": versions(),
        "schedules": schedules,
    }


def write_manifest(study: Study, directory: Path) -> None:
    """Write manifest.json into a folder. Raises InputError where it cannot be written."""
    text = json.dumps(manifest(study), indent=1, default=str, ensure_ascii=False)
    write_whole(directory / "manifest.json", text + "\n")
