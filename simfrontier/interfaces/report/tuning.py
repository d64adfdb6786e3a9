"""The page of a search and its files: the table of all plans, the best as a scenario, the manifest."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simfrontier.answers.search import COLUMNS, DIMENSIONS, SLACK, TuningOutcome, Value, best_toml, rows, written
from simfrontier.answers.step import spread_of
from simfrontier.answers.study import inputs, versions
from simfrontier.base.wholefile import MANIFEST, write_whole
from simfrontier.core.workload import sizes_of
from simfrontier.interfaces.report.figures.breakdown import PARTS
from simfrontier.interfaces.report.figures.explanation import colours_of, parts_figure
from simfrontier.interfaces.report.figures.tuning import COLOURS, against_estimates, order, parts, scatter
from simfrontier.interfaces.report.findings.explanation import shown_parts
from simfrontier.interfaces.report.findings.setup import fitted_elsewhere, numbers_of
from simfrontier.interfaces.report.findings.tuning import TuningFindings, kind_of
from simfrontier.interfaces.report.phrases import fitted_words
from simfrontier.interfaces.report.render import page_of
from simfrontier.interfaces.report.table import rows_csv

BEST = "best.toml"
TUNING_FILES = ("results.csv", BEST, "index.html", MANIFEST)


def tuning_page(outcome: TuningOutcome) -> str:
    """The page as text; the same outcome gives the same text."""
    found, scenario = TuningFindings(outcome=outcome), outcome.scenario.at(outcome.devices)
    known = [plan.candidate for plan in (*outcome.plans, *outcome.misfits)]
    known += [plan.candidate for plan in outcome.passed_over]
    values = {name: sorted({each.value(name) for each in known}, key=_numbers_first) for name in DIMENSIONS}
    return page_of(
        "tune",
        found=found,
        figures={
            "front": scatter(found),
            "order": order(found),
            "estimates": against_estimates(found),
            "time": parts(found),
            "best": parts_figure({"best": outcome.time}, colours_of([outcome.time])),
        },
        colours=COLOURS,
        kind_of=kind_of,
        parts=[(part.short, part.colour) for part in PARTS.values()],
        best_parts=shown_parts(outcome.time.parts),
        dimensions=DIMENSIONS,
        values={name: list(map(written, own)) for name, own in values.items()},
        spread=spread_of(scenario.machine, scenario.library),
        slack=SLACK - 1,
        elsewhere=fitted_words(scenario.library.name, fitted_elsewhere(scenario), scenario.machine.name),
        sizes=[f"{name} {getattr(scenario.shape, name):,}" for name in sizes_of(scenario.shape)],
        numbers=numbers_of(scenario),
        engine=asdict(scenario.file.engine),
        versions=versions(),
    )


def _numbers_first(value: Value) -> tuple[int, int, str]:
    return (0, value, "") if isinstance(value, int) else (1, 0, str(value))


def write_tuning(outcome: TuningOutcome, new: Path, folder: Path, page: bool) -> None:
    """Write everything into `new`, of which the files will go into `folder`. Raises InputError where that cannot be
    done."""
    write_whole(new / "results.csv", rows_csv(COLUMNS, rows(outcome)))
    write_whole(new / BEST, best_toml(outcome, folder))
    text = json.dumps(_manifest(outcome), indent=1, default=str, ensure_ascii=False)
    write_whole(new / MANIFEST, text + "\n")
    if page:
        write_whole(new / "index.html", tuning_page(outcome))


def _asked(outcome: TuningOutcome) -> dict[str, Any]:
    """Return the arguments of a search."""
    return {
        "devices": outcome.devices,
        "batch": outcome.batch,
        "fidelity": outcome.scenario.file.run.fidelity,
        "pins": {name: list(values) for name, values in outcome.pins.values.items()},
        "lossy": outcome.loss.lossy,
        "max_error": outcome.loss.max_error,
    }


def _manifest(outcome: TuningOutcome) -> dict[str, Any]:
    """The inputs of a search as digests, what was asked of it, and the versions that answered; no times, and no
    absolute paths."""
    scenario = outcome.scenario
    return {
        "scenario": scenario.name,
        "file": Path(scenario.where).name,
        **_asked(outcome),
        "inputs": inputs(scenario),
        "settings": scenario.document,
        "versions": versions(),
        "plans": {"total": outcome.total, "simulated": len(outcome.simulated), "ruled_out": outcome.ruled_out},
    }


def tuning_document(outcome: TuningOutcome, top: int | None) -> dict[str, Any]:
    """The outcome for a program: what was searched, the counts, the best `top` rows of results.csv (all without), and
    the scenario's own plans."""
    found = TuningFindings(outcome=outcome)
    plans = [{key: None if cell == "" else cell for key, cell in row.items()} for row in rows(outcome)]
    return {
        "scenario": outcome.scenario.name,
        "title": outcome.scenario.file.title,
        **_asked(outcome),
        "total": outcome.total,
        **found.fates,
        "headroom": outcome.headroom,
        "errors": list(outcome.errors),
        "memory_errors": list(found.peak_errors),
        "tokens_per_s": found.tokens_per_s,
        "lead": found.lead,
        "num_samples": found.num_samples,
        "chances": list(outcome.chances),
        "why": outcome.why,
        "plans": plans[:top],
        "own": [
            {
                "plan": own.name,
                "step_time_s": own.simulated and own.simulated.step_s,
                "peak_memory_bytes": own.simulated and own.simulated.peak_bytes,
                "fits": own.fits,
                "why": own.why,
            }
            for own in outcome.own
        ],
        "faster_own": [own.name for own in found.faster_own],
        "front": [plan.candidate.key for plan in outcome.front()],
    }
