"""The page of training runs compared with predictions: figures, chart and table that follow its filters."""

from __future__ import annotations

from typing import Any, Final

from simfrontier.answers import accuracy
from simfrontier.answers.study import versions
from simfrontier.base.units import unit_of
from simfrontier.interfaces.report.phrases import percent, quantity
from simfrontier.interfaces.report.render import render

MOST_RUNS: Final = 100  # of a user's, that the terminal shows one by one
FACETS: Final[dict[accuracy.Facet, str]] = {
    "machine": "machine",
    "model": "kind of model",
    "stack": "software stack",
    "precision": "precision of products",
    "size": "devices",
    "source": "source",
}
FACTS: Final = {  # columns of the table of runs that a run is shown with
    "batch": "batch ",
    "seq": "sequence ",
    "micro_batch": "micro-batch ",
    "checkpointing": "recomputation: ",
    "precision": "",
}


def runs_page(done: accuracy.RunsValidation, documentation: bool = False) -> str:
    """Return the page of training runs as text; it loads nothing, and has no library for charts. `documentation`:
    the page stands in the site of the documentation, to whose pages it leads."""
    return render(
        "pages/runs.html.j2",
        done=done,
        documentation=documentation,
        facets={facet: (title, done.by(facet)) for facet, title in FACETS.items()},
        runs=[(row, facts_of(row)) for row in done.worst(len(done.predicted))],
        points=[point_of(row) for row in done.worst(len(done.predicted))],
        models=sorted({row.row.model for row in done.predicted}, key=str.casefold),
        parameters=fitted_numbers(done),
        versions=versions(),
        library="",
    )


def point_of(row: accuracy.PredictedRun) -> dict[str, Any]:
    """Return what the page's script draws and filters of a run: times of its step in seconds, the factor to the ends of
    its interval, error and half-width in the unit of the row, and what it is grouped by."""
    made = row.prediction
    return {
        "measured_s": row.step.measured_s,
        "predicted_s": row.step_s,
        "factor": row.factor,
        "error": row.error,
        "covered": row.is_covered,
        "width": (made.high - made.low) / 2.0 / made.value,
        **dict(row.facets.items()),
    }


def facts_of(row: accuracy.PredictedRun) -> list[str]:
    """Return sentences about a run: what its source says, the stack it was simulated with and what was left out of the
    fit, what is assumed, and for one that is far off why, or that this is not known."""
    system = row.row["system"].removeprefix(row.row["source"]).lstrip("; ")  # which begins with the source in one table
    cells = [system, *(f"{name}{row.row[column]}" for column, name in FACTS.items() if row.row[column])]
    unknown = "; ".join(each.text for each in row.job.unknown)
    why = "; ".join(row.causes) or "not known"
    without = f"; fit without {row.without}" if row.without else ""
    return [
        "; ".join(filter(None, cells)),
        f"stack {row.stack}{without}",
        *([f"assumed: {unknown}"] if unknown else []),
        *([f"why it is off: {why}"] if row.is_far else []),
    ]


def runs_shown(done: accuracy.RunsValidation) -> tuple[accuracy.PredictedRun, ...]:
    """Return the runs that the terminal shows one by one, the farthest off first: up to `MOST_RUNS` of a user's, ten of
    the shipped ones."""
    return done.worst(10 if any(row.without for row in done.predicted) else MOST_RUNS)


def runs_shown_title(done: accuracy.RunsValidation) -> str:
    """Return the title of the table of `runs_shown`."""
    count = len(runs_shown(done))
    return "runs, the farthest off first" if count == len(done.predicted) else f"the {count} farthest off"


def fitted_numbers(done: accuracy.RunsValidation) -> list[tuple[str, str, str, str, str]]:
    """Return name, key, fitted values, prior and source of the numbers that are fitted to steps and apply to any of the
    predicted runs."""
    steps, rows = [row.step for row in done.predicted], []
    for one in accuracy.load_parameters().parameters:
        unit = unit_of(one.key)
        values = ", ".join(quantity(value, unit) for value in one.values(steps))
        prior = f"{quantity(one.prior, unit)} ± {percent(one.prior_sd)}"
        rows.append((one.name, one.key, values, prior, one.source))
    return [row for row in rows if row[2]]
