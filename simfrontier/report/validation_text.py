"""What a validation comes to, in sentences that the console and the page share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from simfrontier.report.phrases import NOTHING, listed, number, percent, signed
from simfrontier.report.validation_series import row_name
from simfrontier.validation import (
    AVERAGED,
    EVERYTHING,
    ONLY_BOUNDED,
    UNSEEN,
    BoundedRate,
    Errors,
    JudgedBound,
    Summary,
    Use,
    Validation,
)

MAX_REASONS = 4  # reasons for rows without a prediction that are listed
MANY = 10  # rows of which it is worth saying how far nine in ten are off
USE_WORDS: dict[Use, str] = {
    "left out": "left out (predicted by fits that were not shown their numbers of devices)",
    "held": "held (no parameter was fitted to them)",
    "fitted": "fitted (the parameters were fitted to them)",
}


def validation_lead(done: Validation) -> str:
    """How far off the models are: of rows that no fit had seen, if there are any."""
    overall = done.overall
    if overall.errors is None:
        held = f"{counted(overall.num_rows, 'measurement')} of {counted(len(done.tables), 'table')}"
        return f"{held}: the models say nothing of them that can be averaged."
    errors, uses = (overall.unseen, UNSEEN) if overall.unseen else (overall.errors, AVERAGED)
    of_tables = f"of {counted(len({row.table for row in done.rows if row.is_averaged and row.use in uses}), 'table')}"
    what, verb = ("time", "is") if errors.count == 1 else ("times", "are")
    seen = "that no fit had seen" if overall.unseen else "that the parameters were fitted to"
    return (
        f"{errors.count:,} measured {what} {of_tables}, of all sizes and numbers of devices, {seen}, {verb} predicted "
        f"{percent(errors.mean_abs)} off{_tail(errors)}."
    )


def _tail(errors: Errors) -> str:
    """The summary of several rows: the spread of their errors; of many also how many lie in their intervals."""
    if errors.count == 1:
        return "" if errors.covered is None else f", {'inside' if errors.covered else 'outside'} the 90 % interval"
    if errors.count < MANY:
        return f" on average, the farthest {percent(abs(errors.worst.error or 0.0))}"
    return f" on average, nine in ten within {percent(errors.p90_abs)}{_inside(errors)}"


def validation_findings(done: Validation) -> list[str]:
    """Warnings, bounds that hold and that are missed, errors by what fits had seen, the farthest row, and
    what is not averaged."""
    parts = [*done.notes, *bounds_words(done), *training_words(done.bounded)]
    overall = done.overall
    if overall.errors is not None:
        parts += [_use_words(use, overall.by_use[use]) for use in USE_WORDS if use in overall.by_use]
        worst = overall.errors.worst
        if overall.errors.count > 1:
            parts.append(f"The farthest off: {row_name(worst.row)}: {apart(worst.error)}.")
    if overall.num_pathologies:
        parts.append(f"Shown and not averaged: {counted(overall.num_pathologies, 'row')} of known pathologies.")
    if overall.num_unknown:
        parts.append(f"Not predicted: {counted(overall.num_unknown, 'row')}: {listed(reasons(done))}.")
    return parts


def which(summary: Summary) -> list[tuple[str, Errors | None]]:
    """The lines of a table of errors: of rows that no fit had seen, then apart from them fitted ones."""
    uses: list[tuple[str, Errors | None]] = [(use, summary.by_use[use]) for use in USE_WORDS if use in summary.by_use]
    both = [use for use in UNSEEN if use in summary.by_use]
    if summary.name == EVERYTHING and len(both) > 1:
        return [(" + ".join(both), summary.unseen), *uses]
    return uses or [(NOTHING, None)]


def apart(error: float | None) -> str:
    """An error with its sign: +3.2 %, −3.2 %; a dash where there is none."""
    return NOTHING if error is None else signed(error)


def bounds_words(done: Validation) -> list[str]:
    """Each bound that is missed, how many hold, and the tables without one; nothing where there is none."""
    if not done.judged_bounds:
        return []
    parts = [f"Bound missed: {_missed_words(each)}." for each in done.judged_bounds if not each.holds]
    holding = f"{len(done.judged_bounds) - len(parts)} of {len(done.judged_bounds)} bounds hold"
    bare = [_unbounded_words(each) for each in done.summaries[: len(done.tables)] if not _is_bounded(each.name, done)]
    return [*parts, f"{holding}; no bound is stated for {listed(bare)}." if bare else f"{holding}."]


def _is_bounded(table: str, done: Validation) -> bool:
    return any(each.bound.table == table for each in done.judged_bounds)


def _unbounded_words(summary: Summary) -> str:
    if summary.errors is None:
        return f"{summary.name} ({'no time is predicted' if summary.num_unknown else 'only the most is predicted'})"
    return f"{summary.name} ({percent(summary.errors.mean_abs)} off)"


def training_words(bounded: Sequence[BoundedRate]) -> list[str]:
    """That published rates of training are below what the models allow, or each that is not."""
    above = [each for each in bounded if not each.holds]
    if above:
        return [
            f"Published above what the model allows: {row_name(each.row)}: {_bounded_words(each)}." for each in above
        ]
    if not bounded:
        return []
    shares = [each.published_flops_per_s / each.bound_flops_per_s for each in bounded]
    of = "of what the models allow without communication"
    if len(shares) == 1:
        return [f"1 published rate of training reaches {percent(shares[0])} {of}."]
    return [f"{len(shares):,} published rates of training reach {percent(min(shares))} to {percent(max(shares))} {of}."]


def reasons(done: Validation) -> list[str]:
    """Why rows are not predicted and how many; the commonest first. Of a user's rows also the place of the first."""
    own = {table.name for table in done.tables if not table.citation}
    rows = [row for row in done.rows if row.use == "no model" and row.why != ONLY_BOUNDED]
    first: dict[str, str] = {}
    for row in rows:
        where = row.row.place.first if row.table in own else ""
        first.setdefault(row.why, where)
    common = Counter(row.why for row in rows).most_common()
    parts = [f"{why} ({number:,}{first[why]})" for why, number in common[:MAX_REASONS]]
    rest = sum(number for _, number in common[MAX_REASONS:])
    return [*parts, f"other reasons ({rest:,})"] if rest else parts


def counted(number: int, noun: str) -> str:
    """A number of things: 1 row, 1,012 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _inside(errors: Errors) -> str:
    return "" if errors.covered is None else f"; {percent(errors.covered)} lie inside their 90 % interval"


def _bounded_words(bounded: BoundedRate) -> str:
    return f"{tflops(bounded.published_flops_per_s)} published, at most {tflops(bounded.bound_flops_per_s)}"


def tflops(flops_per_s: float) -> str:
    """A rate of training as papers write it: 80.8 TFLOPS."""
    return f"{number(flops_per_s / 1e12)}\u00a0TFLOPS"


def _missed_words(judged: JudgedBound) -> str:
    bound, errors = judged.bound, judged.errors
    where = f"{bound.table}, {bound.series}"
    if errors is None:
        return f"{where}: no row to judge by"
    parts = [f"{percent(errors.mean_abs)} off on average, {percent(bound.mean_abs)} allowed"]
    if bound.p90_abs is not None:
        parts.append(f"90th percentile {percent(errors.p90_abs)}, {percent(bound.p90_abs)} allowed")
    return f"{where}: {'; '.join(parts)}"


def _use_words(use: Use, errors: Errors) -> str:
    off = f"{percent(errors.mean_abs)} off" + (" on average" if errors.count > 1 else "")
    more = f", median error {apart(errors.median)}, 90th percentile {percent(errors.p90_abs)}"
    return f"{counted(errors.count, 'row')} {USE_WORDS[use]}: {off}{more if errors.count >= MANY else ''}."
