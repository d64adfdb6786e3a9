"""A study's data set on the disk: its rows as Parquet in the order of the points, the same bytes however it was made.

A folder holds results.sqlite (the store of all rows), rows.parquet (those of the study), study.toml and manifest.json.
The manifest is removed before the rows are replaced and written last.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simfrontier.errors import InputError
from simfrontier.experiments import Row
from simfrontier.records import dataclass
from simfrontier.study import STORE, ResultStore, inputs, versions
from simfrontier.sweep.columns import AXIS, axis_cell, axis_types, data_schema, refuse_columns, result_table
from simfrontier.sweep.study import Point, SweepStudy
from simfrontier.wholefile import MANIFEST, write_whole

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel

ROWS: Final = "rows.parquet"
STUDY: Final = "study.toml"
NEW: Final = ".new-rows.parquet"
POINTS_OF_GROUP: Final = 1_024  # whose rows are one row group: few enough to be held, many enough to be packed well
KIND: Final = "sweep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What a data set has: points, rows, and points of which something was refused, or everything."""

    points: int
    rows: int
    refused: int
    refused_whole: int


def read_rows(folder: Path) -> pa.Table:
    """All rows of a data set, in the order of the points. Raises InputError for a folder that holds none."""
    import pyarrow as pa

    return pa.concat_tables(list(parts_of(folder)))


def parts_of(folder: Path) -> Iterator[pa.Table]:
    """The rows of a data set, part by part. Raises InputError as `read_rows`."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    manifest_of(folder)
    path = folder / ROWS
    if not path.is_file():
        raise InputError("has no rows; allowed: a folder of simfrontier sweep", where=str(path))
    try:
        with pq.ParquetFile(path) as file:
            refuse_columns(file.schema_arrow, str(path))
            for group in range(file.num_row_groups):
                yield file.read_row_group(group)
    except (OSError, ValueError, pa.ArrowException) as error:
        raise InputError(f"cannot be read: {_first_line(error)}", where=str(path)) from None


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a data set. Raises InputError for a folder that holds none."""
    from simfrontier.io import read_json

    if not (folder / MANIFEST).is_file():
        text = "no data set of a sweep, or one that is not whole yet; allowed: a folder that simfrontier sweep has made"
        raise InputError(text, where=str(folder))
    document = read_json(folder / MANIFEST, "manifest")
    if not isinstance(document, dict) or document.get("kind") != KIND or not isinstance(document.get("study"), str):
        raise InputError("holds results of another command; allowed: a folder of simfrontier sweep", where=str(folder))
    return document


def refuse_folder(folder: Path, study: str) -> None:
    """Raise InputError for a folder that has other files than those of this study."""
    try:
        is_there = folder.exists()
    except OSError as error:  # a name that is too long
        raise _not_written(folder, error) from None
    if is_there and not folder.is_dir():
        raise InputError(f"--out {folder}: is a file; allowed: a folder, or a name for a new one")
    if not folder.is_dir() or all(each.name.startswith(".") for each in folder.iterdir()):
        return
    if (folder / MANIFEST).is_file():
        of = manifest_of(folder)["study"]
        if of != study:
            raise InputError(f'--out {folder}: is of the study "{of}", not "{study}"; allowed: another --out')
    elif not (folder / STORE).is_file():
        raise InputError(f"--out {folder}: holds other files; allowed: an empty folder, or a name for a new one")


def write_dataset(study: SweepStudy, digests: Sequence[str], store: ResultStore, folder: Path) -> Counts:
    """Replace the data set of a folder by that of a study whose rows are all in the store; `digests`: of its points, in
    order. Raises InputError where it cannot be written: the store has all rows."""
    import pyarrow as pa

    try:
        counts = _write_rows(study, digests, store, folder / NEW)
        (folder / MANIFEST).unlink(missing_ok=True)
        os.replace(folder / NEW, folder / ROWS)
        write_whole(folder / STUDY, study.text)
        write_whole(folder / MANIFEST, manifest_text(study, digests, counts))
    except (OSError, pa.ArrowException) as error:
        what = getattr(error, "strerror", None) or _first_line(error)
        text = f"--out {folder}: cannot be written: {what}; all rows are kept: the same command goes on from there"
        raise InputError(text) from None
    return counts


def manifest_text(study: SweepStudy, digests: Sequence[str], counts: Counts) -> str:
    """manifest.json: what went into a data set, as digests and versions; no times and no absolute paths."""
    from hashlib import sha256

    document = {
        "kind": KIND,
        "study": study.name,
        "title": study.file.title,
        "file": Path(study.where).name,
        "scenarios": {source.scenario.name: inputs(source.scenario) for source in study.sources.values()},
        "plans": list(study.file.plans),
        "set": study.settings,
        "axes": [{"keys": list(axis.keys), "count": axis.count} for axis in study.axes],
        "sampling": _dump(study.file.sampling),
        "search": _dump(study.file.search),
        "goal": _dump(study.file.goal),
        "replay": study.file.replay,
        "filters": list(study.file.filters),
        "fidelity": study.file.fidelity,
        "points": counts.points,
        "rows": counts.rows,
        "refused": counts.refused,
        "points_sha256": sha256("".join(digests).encode()).hexdigest(),
        "versions": versions("scipy", "pyarrow", *(["optuna"] if study.searched else [])),
    }
    return json.dumps(document, indent=1, default=str, ensure_ascii=False) + "\n"


def _dump(table: BaseModel | None) -> dict[str, Any] | None:
    return None if table is None else table.model_dump()


def _write_rows(study: SweepStudy, digests: Sequence[str], store: ResultStore, path: Path) -> Counts:
    """Write the rows of all points, so many points a row group."""
    import pyarrow.parquet as pq

    schema, types = data_schema(study), axis_types(study)
    counts = {"rows": 0, "refused": 0, "refused_whole": 0}
    points = zip(study.points(), digests, strict=True)
    with pq.ParquetWriter(path, schema, compression="zstd", compression_level=3) as writer:
        for group in iter(lambda: list(islice(points, POINTS_OF_GROUP)), []):
            rows = [(point, digest, store.get(digest) or []) for point, digest in group]
            writer.write_table(_table(rows, types, schema))
            for _, _, mine in rows:
                is_refused = [row.get("error") is not None for row in mine]
                counts["rows"] += len(mine)
                counts["refused"] += any(is_refused)
                counts["refused_whole"] += all(is_refused)
    return Counts(points=len(digests), **counts)


def _table(
    points: Sequence[tuple[Point, str, list[Row]]], types: dict[str, pa.DataType], schema: pa.Schema
) -> pa.Table:
    """The rows of points, with their point and the settings of its axes."""
    import pyarrow as pa

    each = [(point, digest, row) for point, digest, mine in points for row in mine]
    results = result_table([digest for _, digest, _ in each], [row for _, _, row in each])
    columns = {name: results.column(name) for name in results.schema.names}
    columns["point"] = pa.array([point.number for point, _, _ in each], type=pa.int64())
    for key, kind in types.items():
        cells = [axis_cell(point.settings[key], kind == pa.string()) for point, _, _ in each]
        columns[AXIS + key] = pa.array([float(cell) if kind == pa.float64() else cell for cell in cells], type=kind)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def _first_line(error: Exception) -> str:
    """The first line of what a library says."""
    return str(error).partition("\n")[0][:200]


def _not_written(folder: Path, error: OSError) -> InputError:
    allowed = "a folder that you may write, or a name for a new one"
    return InputError(f"--out {folder}: cannot be written: {error.strerror}; allowed: {allowed}")
