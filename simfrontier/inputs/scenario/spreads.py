"""The tables of factors that a scenario's spreads name, read from files beside it."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from simfrontier.base.errors import InputError
from simfrontier.core.machine import LARGEST, SMALLEST, Perturbation, Spread
from simfrontier.inputs.scenario.form import ScenarioFile

COLUMN = "factor"


def with_tables(file: ScenarioFile, folder: Path) -> ScenarioFile:
    """The same file with the rows of every table of its spreads. Raises InputError at the key that names the table, or
    with the line of the table that is wrong."""
    changed: dict[str, object] = {}
    if file.perturbation.spread:
        changed["perturbation"] = _filled(file.perturbation, folder)
    table = file.slowdown
    if table is not None and any(case.perturbation.spread for case in table.cases):
        cases = []
        for number, case in enumerate(table.cases):
            try:
                cases.append(case.model_copy(update={"perturbation": _filled(case.perturbation, folder)}))
            except InputError as error:
                raise error.within(key=("slowdown", "cases", number)) from None
        changed["slowdown"] = table.model_copy(update={"cases": cases})
    return file.model_copy(update=changed) if changed else file


def _filled(perturbation: Perturbation, folder: Path) -> Perturbation:
    spread = [_read(each, folder, number) for number, each in enumerate(perturbation.spread)]
    return replace(perturbation, spread=tuple(spread))


def _read(spread: Spread, folder: Path, number: int) -> Spread:
    if spread.table is None:
        return spread
    from simfrontier.inputs.measured import read_lines

    beside = folder / spread.table
    try:
        lines = read_lines(beside if os.path.lexists(beside) else Path(spread.table), (COLUMN,))
        listed = tuple(line.above_zero(COLUMN, "a factor above 0") for line in lines)
        for line, factor in zip(lines, listed, strict=True):
            if not SMALLEST <= factor <= LARGEST:
                raise line.fault(COLUMN, f"a factor from {SMALLEST:g} to {LARGEST:g}")
    except InputError as error:
        raise error.within(key=("perturbation", "spread", number, "table")) from None
    return replace(spread, listed=listed)
