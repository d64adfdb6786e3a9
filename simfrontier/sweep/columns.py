"""The columns of a data set and their types, and rows as tables of Arrow."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from simfrontier.errors import InputError
from simfrontier.experiments import Row
from simfrontier.study import RESULTS as RESULT_COLUMNS
from simfrontier.sweep.study import SweepStudy

if TYPE_CHECKING:
    import pyarrow as pa

AXIS: Final = "axis:"  # before the key of an axis, in the name of its column
RESULTS: Final = {column.name: column for column in RESULT_COLUMNS if column.name != "scenario"}


def result_schema() -> pa.Schema:
    """What is kept of each row, whatever the study: the digest of its point, its results, and why it was refused."""
    import pyarrow as pa

    names = ("digest", "scenario", *RESULTS, "error")
    return pa.schema([pa.field(name, _type(name)) for name in names])


def data_schema(study: SweepStudy) -> pa.Schema:
    """The columns of a study's data set: point, digest, scenario, its axes, then results and error."""
    import pyarrow as pa

    results = result_schema()
    axes = [pa.field(AXIS + key, kind) for key, kind in axis_types(study).items()]
    return pa.schema([pa.field("point", pa.int64()), results.field(0), results.field(1), *axes, *list(results)[2:]])


def axis_types(study: SweepStudy) -> dict[str, pa.DataType]:
    """The types of the axes' columns: what all of its values are, or text, which is JSON where values are of several
    types, or lists."""
    import pyarrow as pa

    out: dict[str, pa.DataType] = {}
    for axis in study.axes:
        found: list[set[type]] = [set() for _ in axis.keys]
        for row in axis.rows:
            for kinds, value in zip(found, row, strict=True):
                kinds.add(type(value) if not isinstance(value, int) or abs(value) < 1 << 63 else float)
        for key, kinds in zip(axis.keys, found, strict=True):
            if kinds == {bool}:
                out[key] = pa.bool_()
            elif kinds == {int}:
                out[key] = pa.int64()
            elif kinds <= {int, float}:
                out[key] = pa.float64()
            else:
                out[key] = pa.string()
    return out


def axis_cell(value: Any, is_text: bool) -> Any:
    """A value as it stands in its column."""
    if not is_text or isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def result_table(digests: Sequence[str], rows: Sequence[Row]) -> pa.Table:
    """Rows, each with the digest of its point, as a table of `result_schema`."""
    import pyarrow as pa

    schema = result_schema()
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in schema.names[1:]}
    columns = {"digest": list(digests), **columns}
    for name, column in RESULTS.items():
        if column.is_number:
            convert = int if column.is_whole else float
            columns[name] = [None if cell is None else convert(cell) for cell in columns[name]]
    return pa.table(columns, schema=schema)


def refuse_columns(found: pa.Schema, where: str) -> None:
    """Raise InputError for a file that has not the columns of results."""
    for wanted in result_schema():
        place = found.get_field_index(wanted.name)
        if place < 0 or found.field(place).type != wanted.type:
            raise InputError(
                f'column "{wanted.name}" is not there as {wanted.type}; allowed: a data set of this version of '
                "simfrontier, or another --out",
                where=where,
            )


def _type(name: str) -> pa.DataType:
    import pyarrow as pa

    column = RESULTS.get(name)
    if column is None or column.unit == "text":
        return pa.string()
    if column.unit == "truth":
        return pa.bool_()
    return pa.int64() if column.is_whole else pa.float64()
