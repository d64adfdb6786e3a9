"""The columns of a data set and their types."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from simfrontier.answers.study import RESULTS as RESULT_COLUMNS
from simfrontier.answers.sweep.form import Value
from simfrontier.answers.sweep.study import SweepStudy

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
    axes = [
        pa.field(AXIS + key, _axis_type(values))
        for axis in study.axes
        for key, values in zip(axis.keys, zip(*axis.rows, strict=True), strict=True)
    ]
    return pa.schema([pa.field("point", pa.int64()), results.field(0), results.field(1), *axes, *list(results)[2:]])


def axis_cell(value: Value, kind: pa.DataType) -> Any:
    """A value as it stands in a column of an axis."""
    import pyarrow as pa

    return value if isinstance(value, str) or kind != pa.string() else json.dumps(value, ensure_ascii=False)


def _axis_type(values: Sequence[Value]) -> pa.DataType:
    """What all values of an axis are; text, which is JSON, where values are of several types, or lists."""
    import pyarrow as pa

    try:
        kind = pa.infer_type(values)
    except pa.ArrowException:
        return pa.string()
    return pa.string() if pa.types.is_nested(kind) else kind


def _type(name: str) -> pa.DataType:
    import pyarrow as pa

    column = RESULTS.get(name)
    if column is None or column.unit == "text":
        return pa.string()
    if column.unit == "truth":
        return pa.bool_()
    return pa.int64() if column.is_whole else pa.float64()
