"""A study's data set on disk: its rows as a Parquet file in the order of the points, byte-identical however it was
computed.

A folder holds results.sqlite (the store of all rows), rows.parquet (the rows of the study), study.toml and
manifest.json. The manifest is removed before the rows are replaced, and written last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simfrontier.answers.study import RESULTS as RESULT_COLUMNS, STORE, ResultStore, inputs, versions
from simfrontier.answers.sweep.form import Value
from simfrontier.answers.sweep.study import SweepStudy
from simfrontier.base.errors import InputError
from simfrontier.base.io import read_json
from simfrontier.base.wholefile import MANIFEST, write_whole

if TYPE_CHECKING:
    import pyarrow as pa


AXIS: Final = "axis:"  # before the key of an axis, in the name of its column
RESULTS: Final = {column.name: column for column in RESULT_COLUMNS if column.name != "scenario"}


def result_schema() -> pa.Schema:
    """Return the columns that every row of results has, in any study: the digest of its point, its results, and the
    error if it was refused.
    """
    import pyarrow as pa

    names = ("digest", "scenario", *RESULTS, "error")
    return pa.schema([pa.field(name, _type(name)) for name in names])


def data_schema(study: SweepStudy) -> pa.Schema:
    """Return the columns of a study's data set: point, digest, scenario, its axes, then results and error."""
    import pyarrow as pa

    results = result_schema()
    axes = [
        pa.field(AXIS + key, _axis_type(values))
        for axis in study.axes
        for key, values in zip(axis.keys, zip(*axis.rows, strict=True), strict=True)
    ]
    return pa.schema([pa.field("point", pa.int64()), results.field(0), results.field(1), *axes, *list(results)[2:]])


def _cell(value: Value, kind: pa.DataType) -> Any:
    """Return a value as stored in the column of an axis."""
    import pyarrow as pa

    return value if isinstance(value, str) or kind != pa.string() else json.dumps(value, ensure_ascii=False)


def _axis_type(values: Sequence[Value]) -> pa.DataType:
    """Return the column type of the values of an axis; for values of several types or lists: string, holding JSON."""
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


ROWS: Final = "rows.parquet"
STUDY: Final = "study.toml"
NEW: Final = ".new-rows.parquet"
POINTS_OF_GROUP: Final = 1_024  # whose rows are one row group: few enough to be held, many enough to be packed well
KIND: Final = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """Numbers of points and rows of a data set, and of points of which some rows, or all rows, were refused."""

    points: int
    rows: int
    refused: int
    refused_whole: int


def read_rows(folder: Path, results: Collection[str] | None = None) -> pa.Table:
    """Return the rows of a data set in the order of the points: all columns, or those of the axes and some `results`.
    Raises InputError for a folder that holds no data set, or none of this version."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    manifest_of(folder)
    where = str(folder / ROWS)
    try:
        with pq.ParquetFile(where) as file:
            schema = file.schema_arrow
            _refuse_columns(schema, where)
            names = [name for name in schema.names if results is None or name in results or name.startswith(AXIS)]
            return file.read(columns=names)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"cannot be read: {_first_line(error)}", where=where) from None


def _refuse_columns(found: pa.Schema, where: str) -> None:
    """Raise InputError for a file that lacks the columns of points and results."""
    import pyarrow as pa

    fields = list(found)
    for wanted in (pa.field("point", pa.int64()), *result_schema()):
        if wanted not in fields:
            allowed = "a data set of this version of simfrontier, or another --out"
            raise InputError(f'column "{wanted.name}" is not there as {wanted.type}; allowed: {allowed}', where=where)


def manifest_of(folder: Path) -> dict[str, Any]:
    """Return the manifest of a data set. Raises InputError for a folder that holds none."""
    if not (folder / MANIFEST).is_file():
        text = "no data set of a sweep, or one that is not whole yet; allowed: a folder that simfrontier sweep has made"
        raise InputError(text, where=str(folder))
    document = read_json(folder / MANIFEST, "manifest")
    if not isinstance(document, dict) or document.get("kind") != KIND or not isinstance(document.get("study"), str):
        raise InputError("holds results of another command; allowed: a folder of simfrontier sweep", where=str(folder))
    return document


def refuse_folder(folder: Path, study: str) -> None:
    """Raise InputError for a folder that contains files other than those of this study."""
    if folder.is_file():
        raise InputError(f"--out {folder}: is a file; allowed: a folder, or a name for a new one")
    if (folder / MANIFEST).is_file():
        of = manifest_of(folder)["study"]
        if of != study:
            raise InputError(f'--out {folder}: is of the study "{of}", not "{study}"; allowed: another --out')
        return
    names = [each.name for each in folder.iterdir() if not each.name.startswith(".")] if folder.is_dir() else []
    if names and STORE not in names:
        raise InputError(f"--out {folder}: holds other files; allowed: an empty folder, or a name for a new one")


def write_dataset(study: SweepStudy, digests: Sequence[str], store: ResultStore, folder: Path) -> Counts:
    """Replace the data set of a folder by that of a study whose rows are all in the store; `digests`: of the points, in
    order. Raises InputError if it cannot be written; the rows remain in the store.
    """
    import pyarrow as pa

    try:
        counts = _write_rows(study, digests, store, folder / NEW)
        (folder / MANIFEST).unlink(missing_ok=True)
        os.replace(folder / NEW, folder / ROWS)
        write_whole(folder / STUDY, study.text)
        write_whole(folder / MANIFEST, manifest_text(study, digests, counts))
    except (OSError, pa.ArrowException) as error:
        what = getattr(error, "strerror", None) or _first_line(error)
        text = f"--out {folder}: cannot be written: {what}; all rows are kept: the same command resumes"
        raise InputError(text) from None
    return counts


def manifest_text(study: SweepStudy, digests: Sequence[str], counts: Counts) -> str:
    """Return the text of manifest.json: the inputs of a data set, as digests and versions; no times and no absolute
    paths."""
    file = study.file
    tables = {name: getattr(file, name) for name in ("sampling", "search", "goal")}
    document = {
        "kind": KIND,
        "study": study.name,
        "title": study.file.title,
        "file": Path(study.where).name,
        "scenarios": {source.scenario.name: inputs(source.scenario) for source in study.sources.values()},
        "plans": list(study.file.plans),
        "set": study.settings,
        "axes": [{"keys": list(axis.keys), "count": axis.count} for axis in study.axes],
        **{name: None if table is None else table.model_dump() for name, table in tables.items()},
        "replay": file.replay,
        "filters": list(file.filters),
        "fidelity": file.fidelity,
        "points": counts.points,
        "rows": counts.rows,
        "refused": counts.refused,
        "points_sha256": sha256("".join(digests).encode()).hexdigest(),
        "versions": versions("scipy", "pyarrow", *(["optuna"] if study.searched else [])),
    }
    return json.dumps(document, indent=1, default=str, ensure_ascii=False) + "\n"


def _write_rows(study: SweepStudy, digests: Sequence[str], store: ResultStore, path: Path) -> Counts:
    """Write the rows of all points, POINTS_OF_GROUP points per row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = data_schema(study)
    counts = {"rows": 0, "refused": 0, "refused_whole": 0}
    points = zip(study.points(), digests, strict=True)
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=3) as writer:
        for group in iter(lambda: list(islice(points, POINTS_OF_GROUP)), []):
            rows: list[dict[str, Any]] = []
            for point, digest in group:
                mine = store.get(digest) or []
                axes = {AXIS + key: _cell(point.settings[key], schema.field(AXIS + key).type) for key in study.keys}
                cells = {"point": point.number, "digest": digest, **axes}
                rows += [{**row, **cells} for row in mine]
                is_refused = [row.get("error") is not None for row in mine]
                counts["rows"] += len(mine)
                counts["refused"] += any(is_refused)
                counts["refused_whole"] += all(is_refused)
            writer.write_table(pa.Table.from_pylist(rows, schema=schema))
    return Counts(points=len(digests), **counts)


def _first_line(error: Exception) -> str:
    """Return the first line of a library's error message."""
    return str(error).partition("\n")[0][:200]
