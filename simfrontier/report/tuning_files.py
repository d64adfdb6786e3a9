"""Files of a search: the table of all plans, the best as a scenario, the manifest and the page."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simfrontier.report.findings.tuning import tuning_findings
from simfrontier.report.manifest import inputs, versions
from simfrontier.report.table import rows_csv
from simfrontier.report.tuning import write_tuning_page
from simfrontier.tuning import COLUMNS, TuningOutcome, best_toml, rows
from simfrontier.wholefile import MANIFEST, write_whole

BEST = "best.toml"
TUNING_FILES = ("results.csv", BEST, "index.html", MANIFEST)


def write_tuning(outcome: TuningOutcome, new: Path, folder: Path, page: bool) -> None:
    """Write everything into `new`, of which the files will go into `folder`. Raises InputError where that cannot be
    done."""
    write_whole(new / "results.csv", rows_csv(COLUMNS, rows(outcome)))
    write_whole(new / BEST, best_toml(outcome, folder))
    text = json.dumps(_manifest(outcome), indent=1, default=str, ensure_ascii=False)
    write_whole(new / MANIFEST, text + "\n")
    if page:
        write_tuning_page(outcome, new / "index.html")


def _manifest(outcome: TuningOutcome) -> dict[str, Any]:
    """The inputs of a search as digests, what was asked of it, and the versions that answered; no times, and no
    absolute paths."""
    scenario = outcome.scenario
    return {
        "scenario": scenario.name,
        "file": Path(scenario.where).name,
        "fidelity": scenario.file.run.fidelity,
        "devices": outcome.devices,
        "batch": outcome.batch,
        "pins": {name: list(values) for name, values in outcome.pins.values.items()},
        "lossy": outcome.loss.lossy,
        "max_error": outcome.loss.max_error,
        "inputs": inputs(scenario),
        "settings": scenario.document,
        "versions": versions(),
        "plans": {"total": outcome.total, "simulated": len(outcome.simulated), "ruled_out": outcome.ruled_out},
    }


def tuning_document(outcome: TuningOutcome, top: int | None) -> dict[str, Any]:
    """The outcome for a program: what was searched, the counts, the best `top` rows of results.csv (all without), and
    the scenario's own plans."""
    found = tuning_findings(outcome)
    plans = [{key: None if cell == "" else cell for key, cell in row.items()} for row in rows(outcome)]
    return {
        "scenario": outcome.scenario.name,
        "title": outcome.scenario.file.title,
        "devices": outcome.devices,
        "batch": outcome.batch,
        "fidelity": outcome.scenario.file.run.fidelity,
        "pins": {name: list(values) for name, values in outcome.pins.values.items()},
        "lossy": outcome.loss.lossy,
        "max_error": outcome.loss.max_error,
        "total": outcome.total,
        **asdict(found.fates),
        "headroom": outcome.headroom,
        "errors": list(outcome.errors),
        "memory_errors": [found.peak_errors.low, found.peak_errors.high],
        "tokens_per_s": found.tokens_per_s,
        "lead": found.lead,
        "num_samples": found.num_samples,
        "chances": list(outcome.chances),
        "why": outcome.why,
        "plans": plans[:top],
        "own": [
            {
                "plan": own.name,
                "step_time_s": None if own.simulated is None else own.simulated.step_s,
                "peak_memory_bytes": None if own.simulated is None else own.simulated.peak_bytes,
                "fits": own.fits,
                "why": own.why,
            }
            for own in outcome.own
        ],
        "faster_own": [own.name for own in found.faster_own],
        "front": [plan.candidate.key for plan in outcome.front()],
    }
