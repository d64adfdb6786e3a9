"""The page of a sweep, made from its folder alone: the data set is read, and nothing is run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from simfrontier.limits import LARGEST, TEXT
from simfrontier.records import dataclass
from simfrontier.report.figures.sweep_goal import samples_figure, search_figure, shares_figure
from simfrontier.report.findings.sweep import PACE, SweepFindings, SweptAxis, column_quantities, sweep_findings
from simfrontier.report.findings.sweep_columns import Quantity, axis_quantities, sentence_of
from simfrontier.report.findings.sweep_goal import SweptGoal
from simfrontier.report.findings.sweep_rows import Words
from simfrontier.report.manifest import versions
from simfrontier.report.phrases import NOTHING, number, percent, quantity
from simfrontier.report.render import page_of
from simfrontier.report.sweep_data import choices_of, few_values, page_data, varied_columns
from simfrontier.report.theme import Figure, marks
from simfrontier.study import Unit
from simfrontier.sweep import AXIS, GOAL, OFF_BY, ROWS, is_of_plan, measure_next
from simfrontier.units import has_multiples, scaled
from simfrontier.wholefile import write_whole

PAGE: Final = "index.html"
MOST_LISTED: Final = 40  # rows of a table that is not the table of all
FEW_NUMBERS: Final = 6  # values of an axis that are all listed
MOST_TEXTS: Final = 12
LAST_STEPS: Final = 12  # of a search, points that were better than all before
MOST_DIGITS: Final = 12  # of a setting: as many as an axis has


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedValue:
    """A setting of all points: its key in a scenario, what that is, and its value in words."""

    key: str
    words: str
    value: str
    sentence: str


def write_sweep_page(folder: Path) -> str:
    """Write index.html into the folder of a sweep, from the rows that are there. Returns what is left out of it, in a
    line; empty: nothing. Raises InputError where the folder holds no data set that can be read, or the page cannot be
    written."""
    found = sweep_findings(folder)
    write_whole(folder / PAGE, sweep_page(found))
    left_out = found.goal.left_out if found.goal else ""
    return left_out and f"{folder / GOAL}: {left_out}: left out of the page; the same sweep makes it anew"


def sweep_page(found: SweepFindings) -> str:
    """The page as text; the same findings give the same text."""
    quantities, mark = column_quantities(found), marks(found.plans)
    front = list(found.front.items())[-1] if found.front else None
    lead = max(found.best, key=lambda row: found.number(PACE, row), default=None)
    choices = choices_of(found, told_apart)
    first = {} if front is None else {"devices": front[0][1], "scenario": _place(found, front[0][0])}
    return page_of(
        "sweep",
        found=found,
        told=partial(told, found, quantities),
        settings=partial(settings, found, quantities),
        axis_values=axis_values,
        set_values=set_values(found.study.fixed),
        replayed_best=sum(map(found.is_replayed, found.best)),
        best=found.best[:MOST_LISTED],
        lead=lead,
        off_by=OFF_BY,
        front=[] if front is None else front[1][:MOST_LISTED],
        data=page_data(found, quantities, mark),
        quantities=quantities,
        choices=choices,
        filtered=[column for column in varied_columns(found) if few_values(found, column)],
        first=first,
        marks=mark,
        goal_figure=goal_figure(found),
        goal_steps=[] if found.goal is None else list(found.goal.steps)[-LAST_STEPS:],
        measure_next=measure_next,
        told_goal=partial(told_goal, found.goal),
        rows_file=ROWS,
        versions=versions(),
    )


def told_value(value: float | str, of: Quantity, is_whole: bool = False, digits: int = 3) -> str:
    """A value of a quantity in words: 4.74 s, 25.4 GB, 13.2 %, 4,096. `digits`: more than three, where it is told apart
    from others."""
    if isinstance(value, str):
        return value or NOTHING
    if not math.isfinite(value):
        return NOTHING
    if digits > 3:
        size, unit = (100.0 * value, "%") if of.unit == "share" else (value, "1/s" if of.unit == "1/s" else "")
        size, unit = scaled(value, of.unit) if has_multiples(of.unit) else (size, unit)
        return f"{number(size, digits)}\u00a0{unit.replace('us', 'µs')}".rstrip("\u00a0")
    if of.unit == "share":
        return percent(value)
    if has_multiples(of.unit):
        return quantity(value, of.unit)
    four = float(f"{value:.4g}")
    is_count = (of.unit == "count" or is_whole) and value.is_integer()
    text = f"{value:,.0f}" if is_count else f"{four:,.0f}" if four.is_integer() else number(four)
    return f"{text}\u00a01/s" if of.unit == "1/s" else text


def told_apart(values: Sequence[float | str], of: Quantity, is_whole: bool = False) -> list[str]:
    """Values in words, all with as many digits as tell different ones apart."""
    for digits in range(3, MOST_DIGITS + 1):
        words = [told_value(value, of, is_whole, digits) for value in values]
        if len(set(words)) == len(set(values)):
            break
    return words


def told(found: SweepFindings, quantities: dict[str, Quantity], name: str, row: int) -> str:
    """A cell of a row in words."""
    column = found.rows[name]
    if isinstance(column, Words):
        return found.text(name, row) or NOTHING
    return told_value(found.number(name, row), quantities[name], column.is_whole)


def told_goal(goal: SweptGoal | None, value: float) -> str:
    """A value of the goal in words."""
    return NOTHING if goal is None else told_value(value, goal.quantity)


def goal_figure(found: SweepFindings) -> Figure | None:
    """The chart of the goal; None where it has none, or nothing to draw."""
    goal = found.goal
    if goal is None or goal.answer is None or goal.answer.best is None:
        return None
    answer, said = goal.answer, partial(told_goal, goal)
    if answer.indices is not None:
        return shares_figure(answer.indices, goal.names) if answer.indices.sd else None
    if answer.kind == "search":
        digests = zip(found.numbers.tolist(), found.digests, strict=True)
        links = {number: digest or str(number) for number, digest in digests}
        return search_figure(answer, goal.quantity, said, links)
    return samples_figure(answer, goal.quantity, said) if answer.kind == "samples" else None


def settings(found: SweepFindings, quantities: dict[str, Quantity], row: int, every: bool = False) -> list[str]:
    """What the point of a row sets for its plan (`every`: for any), of axes on which points differ: `micro batch 4`."""
    plan = found.text("plan", row)
    keys = [axis.key for axis in found.axes if len(axis.values) > 1]
    varied = [AXIS + key for key in keys if every or is_of_plan(key, plan)]
    return [f"{quantities[name].words} {told(found, quantities, name, row)}" for name in varied]


def axis_values(axis: SweptAxis) -> str:
    """The values of an axis in words: all of a few, the first of many texts, the ends of many numbers."""
    count = len(axis.values)
    if axis.is_ordered:
        shown = list(axis.values) if count <= FEW_NUMBERS else [axis.values[0], axis.values[-1]]
    else:
        shown = list(axis.values[:MOST_TEXTS])
    plain = [each if isinstance(each, str) else float(each) for each in shown]
    words = told_apart(plain, axis.quantity, axis.is_whole)
    if axis.is_ordered and count > FEW_NUMBERS:
        return " to ".join(words)
    return ", ".join(words) + (f" and {count - MOST_TEXTS:,} more" if count > len(shown) else "")


def set_values(fixed: Mapping[str, Any]) -> list[FixedValue]:
    """What all points set, in words."""
    kinds: dict[str, Unit] = {key: kind for key, value in fixed.items() if (kind := _kind(value))}
    quantities = axis_quantities(fixed, kinds)
    return [
        FixedValue(
            key=key,
            words=quantities[key].words,
            value=", ".join(
                _in_words(each, quantities[key]) for each in (value if isinstance(value, list) else [value])
            ),
            sentence=sentence_of(key),
        )
        for key, value in fixed.items()
    ]


def _kind(value: Any) -> Unit | None:
    """The kind of a value that is no number; of a list that of its first."""
    first = value[0] if isinstance(value, list) and value else value
    return "truth" if isinstance(first, bool) else None if isinstance(first, int | float) else "text"


def _in_words(value: Any, of: Quantity) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float) and abs(value) <= LARGEST:
        return told_value(float(value), of, isinstance(value, int))
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text[: TEXT.most]


def _place(found: SweepFindings, scenario: str) -> int:
    column = found.rows["scenario"]
    assert isinstance(column, Words)
    return column.texts.index(scenario)
