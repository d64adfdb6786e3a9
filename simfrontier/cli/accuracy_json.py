"""Validations of measured tables and of published runs as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from simfrontier.accuracy import (
    BoundedRate,
    Errors,
    JudgedBound,
    PredictedRun,
    Residual,
    Run,
    RunsValidation,
    Summary,
    Validation,
)
from simfrontier.cli.console import finite, plain
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
