"""What a validation comes to, in sentences that the console and the page share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from simfrontier.report.crosscheck_words import signed
from simfrontier.report.validation_series import row_name
from simfrontier.report.words import NOTHING, listed, percent, quantity
from simfrontier.validation.bounds import Judged
from simfrontier.validation.outcome import Use
from simfrontier.validation.rates import Bounded
from simfrontier.validation.run import Validation
from simfrontier.validation.summary import Errors

MAX_REASONS = 4  # why rows have no prediction, said one by one
USE_WORDS: dict[Use, str] = {
    "fitted": "that the parameters were fitted to",
    "left out": "of numbers of devices that the fit was not shown",
    "held": "that no parameter was fitted to",
}


def lead_sentence(done: Validation) -> str:
    """How many times were held against the models, and how far off these are."""
    overall = done.overall
    held = f"{counted(overall.num_rows, 'measurement')} of {counted(len(done.tables), 'table')}"
    if overall.errors is None:
        return f"{held}: the models say nothing of them that can be averaged."
    errors = overall.errors
    return (
        f"{held}: the {errors.count:,} that are predicted and no known pathologies are predicted "
        f"{percent(errors.mean_abs)} off on average, nine in ten within {percent(errors.p90_abs)}"
        f"{_inside(errors)}."
    )


def findings(done: Validation) -> list[str]:
    """Bounds that hold and that are missed, the bias, the farthest row, and what is not averaged."""
    said = [*bounds_words(done.judged), *training_words(done.bounded)]
    overall = done.overall
    if overall.errors is not None:
        said += [_use_words(use, errors) for use, errors in overall.by_use.items()]
        worst = overall.errors.worst
        said.append(f"The farthest off: {row_name(worst.row)}: {apart(worst.error)}.")
    if overall.num_pathologies:
        said.append(f"Shown and not averaged: {counted(overall.num_pathologies, 'row')} of known pathologies.")
    if overall.num_unknown:
        said.append(f"Not predicted: {counted(overall.num_unknown, 'row')}: {listed(reasons(done))}.")
    return said


def apart(error: float | None) -> str:
    """An error with its sign: +3.2 %; a dash where there is none."""
    return NOTHING if error is None else signed(1 + error)


def bounds_words(judged: Sequence[Judged]) -> list[str]:
    """That all bounds hold, or each that is missed; nothing where there is none."""
    missed = [each for each in judged if not each.holds]
    if missed:
        return [f"Bound missed: {_missed_words(each)}." for each in missed]
    return [f"All stated bounds hold ({len(judged)})."] if judged else []


def training_words(bounded: Sequence[Bounded]) -> list[str]:
    """That published rates of training are below what the models allow, or each that is not."""
    above = [each for each in bounded if not each.holds]
    if above:
        return [
            f"Published above what the model allows: {row_name(each.row)}: {_bounded_words(each)}." for each in above
        ]
    if not bounded:
        return []
    shares = [each.published_flops_per_s / each.bound_flops_per_s for each in bounded]
    return [
        f"{counted(len(bounded), 'published rate')} of training reach {percent(min(shares))} to {percent(max(shares))} "
        "of what the models allow without communication."
    ]


def reasons(done: Validation) -> list[str]:
    """Why rows are not predicted, without what is allowed instead, and how many; the commonest first."""
    common = Counter(row.why.partition(";")[0] for row in done.rows if row.use == "no model").most_common()
    said = [f"{why} ({number:,})" for why, number in common[:MAX_REASONS]]
    rest = sum(number for _, number in common[MAX_REASONS:])
    return [*said, f"other reasons ({rest:,})"] if rest else said


def counted(number: int, noun: str) -> str:
    """A number of things: 1 row, 1,012 rows."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _inside(errors: Errors) -> str:
    return "" if errors.covered is None else f"; {percent(errors.covered)} lie inside their 90 % interval"


def _bounded_words(bounded: Bounded) -> str:
    published, most = (quantity(rate, "flop/s") for rate in (bounded.published_flops_per_s, bounded.bound_flops_per_s))
    return f"{published} published, at most {most}"


def _missed_words(judged: Judged) -> str:
    bound, errors = judged.bound, judged.errors
    where = f"{bound.table}, {bound.series}"
    if errors is None:
        return f"{where}: no row to judge by"
    said = [f"{percent(errors.mean_abs)} off on average, {percent(bound.mean_abs)} allowed"]
    if bound.p90_abs is not None:
        said.append(f"90th percentile {percent(errors.p90_abs)}, {percent(bound.p90_abs)} allowed")
    return f"{where}: {'; '.join(said)}"


def _use_words(use: Use, errors: Errors) -> str:
    return (
        f"{counted(errors.count, 'row')} {USE_WORDS[use]}: {percent(errors.mean_abs)} off on average, median error "
        f"{apart(errors.median)}, 90th percentile {percent(errors.p90_abs)}."
    )
