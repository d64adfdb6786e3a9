"""The page of a validation: the errors of predictions of measured tables, table by table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from simfrontier.measured import Table
from simfrontier.report.ending import how_to_read
from simfrontier.report.markup import cards, items, paragraph, plot, section, table, text
from simfrontier.report.phrases import NOTHING, percent, quantity
from simfrontier.report.render import whole_page
from simfrontier.report.validation_figures import USE_NAMES, agreement_figure, errors_figure, series_figure
from simfrontier.report.validation_series import charts_of, row_name
from simfrontier.report.validation_text import (
    apart,
    bounds_words,
    counted,
    tflops,
    validation_findings,
    validation_lead,
    which,
)
from simfrontier.validation import ONLY_BOUNDED, BoundedRate, ComparedRow, Errors, JudgedBound, Summary, Validation
from simfrontier.wholefile import write_whole

CONTENTS = {
    "headline": "In short",
    "bounds": "Bounds",
    "tables": "Tables",
    "agreement": "Agreement",
    "errors": "Errors",
    "sizes": "By size",
    "worst": "Farthest off",
    "training": "Training",
    "pathologies": "Pathologies",
    "unknown": "Not predicted",
    "sources": "Sources",
    "reading": "How to read",
}
MAX_WORST = 12
_HEAD = ("table", "which rows", "rows", "median error", "mean error", "90th percentile", "farthest", "in 90 % interval")
_BOUNDS_HEAD = ("series", "which rows", "rows", "mean error", "allowed", "90th percentile", "allowed", "holds")
_ROW_HEAD = ("measurement", "measured", "predicted", "error")


def validation_page(done: Validation) -> str:
    """The page as text; the same tables and models give the same text."""
    sections = {
        "headline": _headline(done),
        "bounds": _bounds(done),
        "tables": _tables(done),
        "agreement": _agreement(done),
        "errors": _errors(done),
        "sizes": _sizes(done),
        "worst": _worst(done),
        "training": _training(done.bounded),
        "pathologies": _pathologies(done),
        "unknown": _unknown(done),
        "sources": _sources(done.tables),
        "reading": _reading(),
    }
    heading = "Predictions held against measurements"
    subtitle = "What the shipped models of machines and libraries say of measured times, row by row."
    return whole_page(heading, f"{heading}: simfrontier validate", subtitle, CONTENTS, sections)


def write_validation_page(done: Validation, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, validation_page(done))


def _headline(done: Validation) -> str:
    errors = done.overall.unseen or done.overall.errors
    of = "that no fit had seen" if done.overall.unseen else "that the parameters were fitted to"
    shown = [(f"{done.overall.num_rows:,}", "measurements", f"of {counted(len(done.tables), 'table')}")]
    if errors is not None:
        shown += [
            (percent(errors.mean_abs), "mean error", f"absolute, of {counted(errors.count, 'row')} {of}"),
            (apart(errors.median), "median error", "with its sign: the bias"),
            (percent(errors.p90_abs), "90th percentile", "of the absolute errors"),
            (percent(errors.covered), "inside the interval", "that is to hold 90 %"),
        ]
    if done.judged_bounds:
        good = sum(each.holds for each in done.judged_bounds)
        shown.append((f"{good} of {len(done.judged_bounds)}", "bounds hold", "that tables are held to"))
    return section(
        "headline",
        "In short",
        paragraph(validation_lead(done), "lead"),
        _broken(items((text(message) for message in validation_findings(done)), "plain")),
        cards(shown),
    )


def _bounds(done: Validation) -> str:
    """Empty where there are no bounds."""
    if not done.judged_bounds:
        return ""
    message = " ".join(bounds_words(done))
    return section(
        "bounds",
        "What it is held to",
        paragraph(message, "callout"),
        table(_BOUNDS_HEAD, map(_bound_row, done.judged_bounds), "named"),
    )


def _bound_row(judged: JudgedBound) -> list[str]:
    bound, errors = judged.bound, judged.errors
    return [
        f"{text(bound.series)}<small>{text(bound.table)}</small>",
        ", ".join(judged.uses) or NOTHING,
        f"{errors.count:,}" if errors else "0",
        percent(errors.mean_abs) if errors else NOTHING,
        percent(bound.mean_abs),
        percent(errors.p90_abs) if errors else NOTHING,
        percent(bound.p90_abs),
        "yes" if judged.holds else '<span class="no">no</span>',
    ]


def _tables(done: Validation) -> str:
    titles = {each.name: each.title for each in done.tables}
    rows = [row for each in done.summaries for row in _summary_rows(each, titles.get(each.name, ""))]
    return section(
        "tables",
        "Errors by table",
        paragraph(
            "Error is predicted over measured time, minus one, here of all sizes and numbers of devices. Left out: "
            "predicted by a fit that saw no row of the same number of devices; held: no parameter was fitted to these "
            "rows; fitted: the parameters were. Mean and percentile are of absolute errors."
        ),
        table(_HEAD, rows, "named"),
    )


def _summary_rows(summary: Summary, title: str) -> list[list[str]]:
    """A row for each use; what no fit had seen comes first."""
    beside = [
        f"{number:,} {words}"
        for number, words in (
            (summary.num_pathologies, "pathology" if summary.num_pathologies == 1 else "pathologies"),
            (summary.num_unknown, "not predicted"),
        )
        if number
    ]
    remark = "; ".join([*([title] if title not in ("", summary.name) else []), *beside])
    name = f"{text(summary.name)}<small>{text(remark)}</small>" if remark else text(summary.name)
    return [
        ["" if place else name, words, *_error_cells(errors)] for place, (words, errors) in enumerate(which(summary))
    ]


def _error_cells(errors: Errors | None) -> list[str]:
    if errors is None:
        return ["0", *[NOTHING] * 5]
    return [
        f"{errors.count:,}",
        apart(errors.median),
        percent(errors.mean_abs),
        percent(errors.p90_abs),
        f'<span title="{text(row_name(errors.worst.row))}">{apart(errors.worst.error)}</span>',
        percent(errors.covered),
    ]


def _agreement(done: Validation) -> str:
    drawn = _drawn(done)
    if not drawn:
        return ""
    return section(
        "agreement",
        "Measured against predicted",
        paragraph(
            "A point per measurement; above the line reality is slower than predicted. Point at one for its row."
        ),
        plot(
            "fig-agreement",
            {name: agreement_figure(rows) for name, rows in drawn.items()},
            "Measured against predicted time of every row of a table",
        ),
    )


def _drawn(done: Validation) -> dict[str, list[ComparedRow]]:
    """The rows with an error, by table; no table without any."""
    return {each.name: rows for each in done.tables if (rows := _predicted(done.of(each.name)))}


def _predicted(rows: Sequence[ComparedRow]) -> list[ComparedRow]:
    return [row for row in rows if row.error is not None]


def _errors(done: Validation) -> str:
    drawn = _drawn(done)
    if not drawn:
        return ""
    variants = {"all tables": _predicted(done.rows), **drawn} if len(drawn) > 1 else drawn
    return section(
        "errors",
        "How many are how far off",
        plot(
            "fig-errors",
            {name: errors_figure(rows) for name, rows in variants.items()},
            "Numbers of rows by error, stacked by what the fits had seen",
        ),
    )


def _sizes(done: Validation) -> str:
    parts = []
    for place, each in enumerate(done.tables):
        charts = charts_of(done.of(each.name))
        if charts:
            figures = {name: series_figure(rows) for name, rows in charts.items()}
            parts.append(f"<h3>{text(each.title)}</h3>")
            parts.append(plot(f"fig-sizes-{place}", figures, f"Time over size, measured and predicted: {each.title}"))
    if not parts:
        return ""
    return section(
        "sizes",
        "Time over size",
        paragraph(
            "Points are measured, lines predicted, bands hold 90 % of measurements where the model says how far off it "
            "may be. Open points are known pathologies, with the reason at the pointer. Below: predicted over measured "
            "time, minus one; what is beyond the axis is drawn at its edge. Click a name in the legend to hide a line, "
            "twice to see it alone."
        ),
        _broken(*parts),
    )


def _broken(*parts: str) -> str:
    """Parts in which names that are longer than the page is wide break, instead of pushing it wider."""
    return f'<div class="broken">{"".join(parts)}</div>'


def _worst(done: Validation) -> str:
    ranked = sorted((row for row in done.rows if row.is_averaged), key=lambda row: -abs(row.error or 0.0))[:MAX_WORST]
    if not ranked:
        return ""
    return section("worst", "The farthest off", table(_ROW_HEAD, map(_row_cells, ranked), "named"))


def _row_cells(held: ComparedRow) -> list[str]:
    made = held.prediction
    return [
        f"{text(row_name(held.row))}<small>{text(held.table)}, {USE_NAMES.get(held.use, held.use)}</small>",
        NOTHING if held.measured_s is None else quantity(held.measured_s, "s"),
        NOTHING if made is None else quantity(made.predicted_s, "s"),
        apart(held.error),
    ]


def _training(bounded: Sequence[BoundedRate]) -> str:
    """Published rates against what the models allow; empty where there is none."""
    if not bounded:
        return ""
    rows = [
        [
            f"{text(row_name(each.row))}<small>{text(each.row.source)}</small>",
            tflops(each.published_flops_per_s),
            tflops(each.bound_flops_per_s),
            percent(each.published_flops_per_s / each.bound_flops_per_s),
            "yes" if each.holds else '<span class="no">no</span>',
        ]
        for each in bounded
    ]
    return section(
        "training",
        "Published rates of training",
        paragraph(
            "Per device, against the most that the models allow: that of a device that only computes. How far below "
            "a run stays is its communication and its plan; one above would show the model wrong."
        ),
        table(["run", "published", "bound", "share of it", "below the bound"], rows, "named"),
    )


def _pathologies(done: Validation) -> str:
    """Known pathologies by reason; empty where there is none."""
    parts = []
    for why, rows in _by_reason(done, "pathology").items():
        parts.append(
            f"<details><summary>{text(why)} ({counted(len(rows), 'row')})</summary>"
            f"{table(_ROW_HEAD, map(_row_cells, rows), 'named')}</details>"
        )
    if not parts:
        return ""
    message = "Measurements that say something of a fault and nothing of the law. They are drawn open and not averaged."
    return section("pathologies", "Known pathologies", paragraph(message), *parts)


def _unknown(done: Validation) -> str:
    """Rows that no model covers, by reason; empty where there is none."""
    known = _by_reason(done, "no model")
    if not known:
        return ""
    rows = [
        [text(why), f"{len(several):,}", text(", ".join(dict.fromkeys(row.table for row in several)))]
        for why, several in known.items()
    ]
    return section("unknown", "Not predicted, and why", table(["reason", "rows", "tables"], rows, "words named"))


def _by_reason(done: Validation, use: str) -> dict[str, list[ComparedRow]]:
    out: dict[str, list[ComparedRow]] = {}
    for row in done.rows:
        if row.use == use and row.why != ONLY_BOUNDED:
            out.setdefault(row.why, []).append(row)
    return out


def _sources(tables: Sequence[Table]) -> str:
    """Where the tables come from and how they were measured; empty for a user's files, which do not record it."""
    rows = [
        [text(each.name), text(each.citation), text(each.method) + items(map(text, each.caveats))]
        for each in tables
        if each.citation
    ]
    if not rows:
        return ""
    head = ["table", "measured by", "how it was measured"]
    return section("sources", "Who measured, and how", table(head, rows, "words"))


def _reading() -> str:
    meanings = {
        "error": "Predicted over measured time, minus one: positive where the model is too slow.",
        "mean error": "The mean of absolute errors (mean absolute percentage error).",
        "90th percentile": "Nine of ten absolute errors are at most this.",
        "left out": "Predicted by a fit that saw no row of the same number of devices.",
        "held": "No parameter was fitted to these rows.",
        "fitted": "The shipped parameters were fitted to these rows, among others.",
        "90 % interval": "Nine of ten measurements should be in it, by the errors on rows that a fit had not seen.",
        "predicted": "The collective alone on the first nodes of the machine, and what the measuring program adds.",
    }
    return how_to_read(meanings, "scipy")
