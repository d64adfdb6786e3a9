"""Validations of measured tables and of published runs, calibrations and fits as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from simfrontier.accuracy import (
    BoundedRate,
    Errors,
    FitOutcome,
    JudgedBound,
    PredictedRun,
    Residual,
    Run,
    RunsValidation,
    Summary,
    Validation,
    error_summary,
)
from simfrontier.cli.console import finite, plain
from simfrontier.collectives import Calibration
from simfrontier.measured import Row
from simfrontier.report import said

_RUN = ("machine", "system", "model_shape", "plan", "devices", "unit")


def tables_document(done: Validation) -> dict[str, Any]:
    """Every row with its prediction, the errors of every table, and the bounds."""
    by_name = {summary.name: summary for summary in done.summaries}
    return {
        "holds": done.holds,
        "said": [plain(text) for name in ("lead", "findings") for text in said("validate", name, done)],
        "notes": [*map(plain, (*done.notes, *said("validate", "notes", done)))],
        "overall": _summary(done.overall),
        "tables": {
            table.name: {
                "title": table.title,
                "citation": table.citation,
                "method": table.method,
                "caveats": table.caveats,
                **_summary(by_name[table.name]),
            }
            for table in done.tables
        },
        "not_predicted": [{"why": why, "rows": len(rows)} for why, rows in done.unpredicted.items()],
        "bounds": [_bound(each) for each in done.judged_bounds],
        "training": [_training(each) for each in done.bounded],
        "rows": [_measured_row(row) for row in done.rows],
    }


def runs_document(done: RunsValidation) -> dict[str, Any]:
    """Every run with its prediction in its own unit, or the reason why there is none, and the errors."""
    return {
        "title": done.title,
        "num_rows": len(done.rows),
        "num_expressed": len(done.predicted),
        "overall": _run_errors("all", done.overall),
        "by_machine": _all_run_errors(done.by("machine")),
        "by_system": _all_run_errors(done.by("system")),
        "by_size": _all_run_errors(done.by_size()),
        "memory": _run_errors("memory", done.memory),
        "rows": [_run_row(row) for row in done.rows],
    }


# ── calibrations ──


def calibration_document(calibration: Calibration, out: Path) -> dict[str, object]:
    """The texts and numbers of a calibration, and what its tables are of."""
    return {
        "file": str(out),
        **{key: getattr(calibration, key) for key in ("title", "where", "when", "how")},
        "machine": dict(calibration.machine),
        "library": dict(calibration.library),
        "calls": [
            {
                "kind": call.kind,
                "ranks": call.ranks,
                "nodes": call.nodes,
                "packages": call.packages,
                "points": len(call.points),
                "smallest_bytes": call.points[0].bytes,
                "largest_bytes": call.points[-1].bytes,
                "largest_message_bytes_per_s": 1.0 / call.seconds_per_byte,
                "residual": call.residual,
            }
            for call in calibration.calls
        ],
    }


def fit_document(
    done: FitOutcome, calibration: Calibration, out: Path, page: Path, left_out: Sequence[str] = ()
) -> dict[str, Any]:
    """The parameters, the errors, and every point as it is predicted; `left_out`: what of the files is no row."""
    return {
        "file": str(out),
        "page": str(page),
        **{key: getattr(calibration, key) for key in ("title", "where", "when", "how")},
        "said": [
            *(plain(text) for name in ("lead", "findings") for text in said("calibrate", name, done)),
            *left_out,
        ],
        "parameters": [asdict(parameter) for parameter in done.parameters],
        "shipped": asdict(error_summary(done.shipped)),
        "model_sd": done.model_sd,
        "covered": done.covered,
        "worse_than_shipped": done.worse is not None,
        "hardly_shown": list(done.hardly),
        "errors": [asdict(line) for line in done.lines],
        "fit": None if calibration.fit is None else asdict(calibration.fit),
        "set_aside": {str(missing): number for missing, number in done.chosen.set_aside.items()},
        "not_left_out": {
            f"{machine} {devices}": text for (machine, devices), text in done.cross_validation.faults.items()
        },
        "rows": [
            {
                "machine": row.machine,
                "collective": row.collective,
                "library": row.library,
                "devices": row.devices,
                "bytes": row.num_bytes,
                "time_s": row.seconds,
                "fitted_s": row.seconds * math.exp(fitted),
                "left_out_s": None if math.isnan(left_out) else row.seconds * math.exp(left_out),
                "source": row.source,
            }
            for row, fitted, left_out in zip(
                done.chosen.rows, done.fitted.errors.tolist(), done.cross_validation.errors.tolist(), strict=True
            )
        ],
    }


# ── tables ──


def _measured_row(row: Residual[Row]) -> dict[str, Any]:
    """A row under the names of its file's columns, and what is predicted."""
    made = row.prediction
    return {
        "table": row.table,
        **_columns(row.row),
        "time_s": row.measured,
        "predicted_s": made and made.value,
        "low_s": made and finite(made.low),
        "high_s": made and finite(made.high),
        "error": row.error,
        "harness_s": made and made.harness_s,
        "use": row.use,
        "why": row.reason,
    }


def _columns(row: Row) -> dict[str, Any]:
    names = {"num_bytes": "bytes", "seconds": "time_s"}
    row_json = asdict(row) | {"place": str(row.place)}
    return {names.get(name, name): value for name, value in row_json.items()}


def _summary(summary: Summary) -> dict[str, Any]:
    return {
        "num_rows": summary.num_rows,
        "num_pathologies": summary.num_pathologies,
        "num_not_predicted": summary.num_unknown,
        "errors": _errors(summary.errors),
        "unseen": _errors(summary.unseen),
        "by_use": {use: _errors(errors) for use, errors in summary.by_use.items()},
    }


def _errors(errors: Errors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    numbers = {name: getattr(errors, name) for name in ("count", "median", "mean_abs", "p90_abs", "covered")}
    return {**numbers, "worst": _measured_row(errors.worst)}


def _bound(judged: JudgedBound) -> dict[str, Any]:
    return {**asdict(judged.bound), "holds": judged.holds, "rows": judged.uses, "errors": _errors(judged.errors)}


def _training(bounded: BoundedRate) -> dict[str, Any]:
    return {
        **_columns(bounded.row),
        "published_flops_per_s": bounded.published_flops_per_s,
        "bound_flops_per_s": bounded.bound_flops_per_s,
        "holds": bounded.holds,
    }


# ── published runs ──


def _all_run_errors(errors: Mapping[str, Errors]) -> list[dict[str, Any] | None]:
    return [_run_errors(name, each) for name, each in errors.items()]


def _run_errors(name: str, errors: Errors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    return {
        "name": name,
        "count": errors.count,
        "mean": errors.mean_abs,
        "median": errors.median_abs,
        "bias": errors.bias,
        "covered": errors.covered,
        "width": errors.width,
    }


def _run_row(row: Residual[Run]) -> dict[str, Any]:
    run, made = row.row, row.prediction
    named = {"row": run.number, "where": run.where, **{name: run[name] for name in _RUN}, "value": finite(run.value)}
    predicted = {"predicted": made and made.value, "low": made and made.low, "high": made and made.high}
    if not isinstance(row, PredictedRun):
        return {**named, **predicted, "why": row.why}
    return {
        **named,
        **predicted,
        "error": row.error,
        "inside": row.is_covered,
        "use": row.use,
        "left_out": row.without,
        "step_s": row.step_s,
        "memory_bytes": row.step.peak_bytes,
        "stated_memory_bytes": row.job.stated_bytes,
        "stack": row.job.scenario.file.stack,
        "simulated_on": row.job.scenario.machine.name,
        "assumed": [each.text for each in row.job.unknown],
        "why": row.why,
    }
