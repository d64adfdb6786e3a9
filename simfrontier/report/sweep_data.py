"""What the script of a sweep's page draws from: the columns of the rows that are shown, and what was found in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from simfrontier.limits import SWEEP_LINES
from simfrontier.report.figures.breakdown import PARTS
from simfrontier.report.findings.neighbours import Neighbours
from simfrontier.report.findings.ranks_in_groups import Ranks
from simfrontier.report.findings.sweep import FRONT, PACE, SweepFindings
from simfrontier.report.findings.sweep_columns import ERROR, EXPOSED_SHARE, Quantity, is_list
from simfrontier.report.findings.sweep_rows import Column, Numbers, Words
from simfrontier.report.theme import PlanMark
from simfrontier.sweep import AXIS, OFF_BY, REPLAY, ROWS

DIGITS: Final = 6  # of results: more than is shown, or told apart by a chart
FEW: Final = 24  # values of an axis that a drop-down lists
SHORT_DIGEST: Final = 12  # digits of a schedule's digest that are shown
RESULTS_DRAWN: Final = ("step_time_s", PACE, "tflops_per_device", EXPOSED_SHARE, "peak_memory_bytes", "fits")
_SIZES: Final = ("devices", "nodes")  # which are axes of a chart, and no results
NOT_OFFERED: Final = ("schedule_digest", "note", "fidelity", "mesh", ERROR)
_PART_COLUMNS: Final = {"compute": "compute_time_s"} | {
    part: f"exposed_{part}_s" for part in PARTS if part != "compute"
}


def page_data(
    found: SweepFindings, quantities: Mapping[str, Quantity], marks: Mapping[str, PlanMark]
) -> dict[str, Any]:
    """As JSON: columns by name with what they are, a place in `columns` for each row; which points rows belong to;
    their places; neighbours of points; which columns charts and tables begin with."""
    varied = varied_columns(found)
    ordered = [name for name, each in quantities.items() if each.better and _varies(found, name)]
    values = [name for name in quantities if name not in NOT_OFFERED and not name.startswith(AXIS)]
    results = [name for name in RESULTS_DRAWN if _has_values(found, name)]
    log_axes = {AXIS + axis.key for axis in found.axes if axis.is_log}
    return {
        "columns": {name: _column(found, name, of) | {"isLog": name in log_axes} for name, of in quantities.items()},
        "pointOf": found.point_of.tolist(),
        "numbers": found.numbers.tolist(),
        "digests": list(found.digests),
        "within": _ranks(found.within),
        "overall": _ranks(found.overall),
        "beside": {key: _beside(each) for key, each in found.beside.items()},
        "nearest": None if found.nearest is None else found.nearest.tolist(),
        "marks": {plan: {"colour": mark.colour, "symbol": mark.symbol} for plan, mark in marks.items()},
        "parts": [
            {"column": _PART_COLUMNS[key], "words": part.name, "colour": part.colour} for key, part in PARTS.items()
        ],
        "paths": dict(found.study.paths),
        "settings": list(found.study.settings),
        "fidelity": found.study.fidelity,
        "studyFile": found.study.file,
        "thinned": found.is_thinned,
        "rowsFile": ROWS,
        "pace": PACE,
        "replay": REPLAY,
        "offBy": OFF_BY,
        "mostLines": SWEEP_LINES.most,
        "varied": varied,
        "parallel": [*varied, *results],
        "coloured": [name for name in dict.fromkeys((*varied, *values)) if _varies(found, name)],
        "measures": [
            name for name in values if quantities[name].better and _has_values(found, name) and name not in _SIZES
        ],
        "ordered": [*dict.fromkeys((*FRONT, *ordered))],
        "front": list(FRONT),
        "table": {"columns": [*varied, *results], "sorted": PACE},
    }


def _has_values(found: SweepFindings, name: str) -> bool:
    """Whether any row has a value in a column."""
    column = found.rows[name]
    return any(place >= 0 for place in column.places) if isinstance(column, Words) else bool(_known(column))


def varied_columns(found: SweepFindings) -> list[str]:
    """Axes on which points differ, and of scenario, plan and devices those of which there are several."""
    axes = [AXIS + axis.key for axis in found.axes if len(axis.values) > 1]
    several = {"scenario": found.scenarios, "plan": found.plans, "devices": found.sizes}
    return axes + [name for name, values in several.items() if len(values) > 1]


def choices_of(
    found: SweepFindings, told: Callable[[Sequence[float | str], Quantity, bool], Sequence[str]]
) -> dict[str, list[tuple[float | int, str]]]:
    """What drop-downs choose among, by column: (what the script compares with, words, which `told` makes). Columns with
    one value, and axes with many, have none."""
    made: dict[str, list[tuple[float | int, str]]] = {}
    texts = {"scenario": found.scenarios, "plan": found.plans}
    for name, known in texts.items():
        if len(known) > 1:
            made[name] = _places(found.rows[name], known)
    if len(found.sizes) > 1:
        made["devices"] = [(size, f"{size:,}") for size in found.sizes]
    for axis in found.axes:
        name, column = AXIS + axis.key, found.rows[AXIS + axis.key]
        if not few_values(found, name):
            continue
        if isinstance(column, Words):
            made[name] = _places(column, [str(value) for value in axis.values])
        else:
            values = [float(value) for value in axis.values]
            words = told(values, axis.quantity, axis.is_whole)
            made[name] = [(_plain(value, axis.is_whole), word) for value, word in zip(values, words, strict=True)]
    return made


def few_values(found: SweepFindings, name: str) -> bool:
    """Whether a drop-down lists the values of an axis."""
    return any(AXIS + axis.key == name and 1 < len(axis.values) <= FEW for axis in found.axes)


def _column(found: SweepFindings, name: str, of: Quantity) -> dict[str, Any]:
    column, is_axis = found.rows[name], name.startswith(AXIS)
    told: dict[str, Any] = {"words": of.words, "unit": of.unit, "better": of.better, "isAxis": is_axis}
    if is_axis:
        told["isList"] = is_list(name.removeprefix(AXIS))
    if isinstance(column, Words):
        texts = [text[:SHORT_DIGEST] for text in column.texts] if name == "schedule_digest" else list(column.texts)
        return told | {"texts": texts, "places": column.places.tolist(), "isTruth": column.is_truth}
    cells = column.values.tolist()
    values: list[float | None]
    if column.is_whole:
        values = [None if cell != cell else int(cell) for cell in cells]
    else:
        values = [None if cell != cell else cell if is_axis else float(f"{cell:.{DIGITS}g}") for cell in cells]
    return told | {"values": values, "isWhole": column.is_whole}


def _plain(value: float, is_whole: bool) -> float | int:
    """As the script writes it: whole numbers have no point."""
    return int(value) if is_whole or value.is_integer() else value


def _places(column: Column, known: tuple[str, ...] | list[str]) -> list[tuple[float | int, str]]:
    assert isinstance(column, Words)
    return [(column.texts.index(text), text) for text in known]


def _varies(found: SweepFindings, name: str) -> bool:
    column = found.rows[name]
    if isinstance(column, Words):
        return len(set(column.places.tolist()) - {-1}) > 1
    return len(_known(column)) > 1


def _known(column: Numbers) -> set[float]:
    return {cell for cell in column.values.tolist() if math.isfinite(cell)}


def _ranks(ranks: Ranks) -> dict[str, list[int]]:
    return {"place": ranks.place.tolist(), "among": ranks.among.tolist()}


def _beside(found: Neighbours) -> dict[str, list[int]]:
    return {"less": found.less.tolist(), "more": found.more.tolist()}
