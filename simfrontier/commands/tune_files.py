"""What `simfrontier tune` writes: the table of all plans, the best as a scenario, the manifest and the page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simfrontier.report.manifest import inputs, versions
from simfrontier.report.table import rows_csv
from simfrontier.tune import TuningOutcome
from simfrontier.tune.best import best_toml
from simfrontier.tune.rows import COLUMNS, rows
from simfrontier.wholefile import write_whole

BEST = "best.toml"


def write_files(found: TuningOutcome, new: Path, folder: Path, page: bool) -> None:
    """Write everything into `new`, of which the files will go into `folder`. Raises InputError where that cannot be
    done."""
    write_whole(new / "results.csv", rows_csv(COLUMNS, rows(found)))
    write_whole(new / BEST, best_toml(found, folder))
    text = json.dumps(manifest(found), indent=1, default=str, ensure_ascii=False)
    write_whole(new / "manifest.json", text + "\n")
    if page:
        from simfrontier.report.tuning import write_tuning_page

        write_tuning_page(found, new / "index.html")


def manifest(found: TuningOutcome) -> dict[str, Any]:
    """The inputs of a search as digests, what was asked of it, and the versions that answered; no times, and no
    absolute paths."""
    scenario = found.scenario
    return {
        "scenario": scenario.name,
        "file": Path(scenario.where).name,
        "fidelity": scenario.file.run.fidelity,
        "devices": found.devices,
        "batch": found.batch,
        "pins": {name: list(values) for name, values in found.pins.values.items()},
        "lossy": found.loss.lossy,
        "max_error": found.loss.max_error,
        "inputs": inputs(scenario),
        "settings": scenario.document,
        "versions": versions(),
        "plans": {"total": found.total, "simulated": len(found.simulated), "ruled_out": found.ruled_out},
    }


def as_document(found: TuningOutcome, top: int | None) -> dict[str, Any]:
    """The outcome for a program: what was searched, the counts, the best `top` rows of results.csv (all without), and
    the scenario's own plans."""
    plans = [{key: None if cell == "" else cell for key, cell in row.items()} for row in rows(found)]
    return {
        "scenario": found.scenario.name,
        "title": found.scenario.file.title,
        "devices": found.devices,
        "batch": found.batch,
        "fidelity": found.scenario.file.run.fidelity,
        "pins": {name: list(values) for name, values in found.pins.values.items()},
        "lossy": found.loss.lossy,
        "max_error": found.loss.max_error,
        "total": found.total,
        "too_big": found.too_big + len(found.misfits),
        "faulty": found.faulty,
        "ruled_out": found.ruled_out,
        "simulated": len(found.simulated),
        "headroom": found.headroom,
        "errors": list(found.errors),
        "why": found.why,
        "plans": plans[:top],
        "own": [
            {
                "plan": own.name,
                "step_time_s": None if own.simulated is None else own.simulated.step_s,
                "peak_memory_bytes": None if own.simulated is None else own.simulated.peak_bytes,
                "fits": own.fits,
                "why": own.why,
            }
            for own in found.own
        ],
        "front": [plan.candidate.key for plan in found.front()],
    }
