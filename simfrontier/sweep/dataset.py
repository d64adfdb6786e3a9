"""A study's data set on the disk: its rows as Parquet in the order of the points, the same bytes however it was made.

A folder holds rows.parquet (parts of the data set), others.parquet (rows that are no longer of the study), study.toml
and manifest.json; while a sweep runs, its journal. The manifest is removed before the parts are replaced and written
last; until then the journal and the parts before stay, so that nothing is lost wherever it is stopped.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simfrontier.errors import InputError
from simfrontier.records import dataclass
from simfrontier.study import inputs, versions
from simfrontier.sweep.columns import AXIS, axis_cell, axis_types, data_schema, refuse_columns, result_schema
from simfrontier.sweep.journal import NAME as JOURNAL, not_written, study_of_journal
from simfrontier.sweep.kept import KeptRows, first_line
from simfrontier.sweep.study import Point, SweepStudy
from simfrontier.wholefile import MANIFEST, write_whole

if TYPE_CHECKING:
    import pyarrow as pa
    from pydantic import BaseModel

ROWS: Final = "rows.parquet"
OTHERS: Final = "others.parquet"
STUDY: Final = "study.toml"
NEW, OLD, NEW_OTHERS = ".new-rows", ".old-rows", ".new-others"
POINTS_OF_GROUP: Final = 1_024  # whose rows are one row group: few enough to be held, many enough to be packed well
GROUPS_OF_PART: Final = 64
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

    _read_manifest(folder)
    parts = _parts(folder / ROWS)
    if not parts:
        raise InputError("has no rows; allowed: a folder of simfrontier sweep", where=str(folder / ROWS))
    for part in parts:
        try:
            table = pq.read_table(part, partitioning=None)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InputError(f"cannot be read: {first_line(error)}", where=str(part)) from None
        refuse_columns(table.schema, str(part))
        yield table


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a data set. Raises InputError for a folder that holds none."""
    return _read_manifest(folder)


def refuse_folder(folder: Path, study: str) -> None:
    """Raise InputError for a folder that has other files than those of this study."""
    try:
        is_there = folder.exists()
    except OSError as error:  # a name that is too long
        raise not_written(folder, error) from None
    if is_there and not folder.is_dir():
        raise InputError(f"--out {folder}: is a file; allowed: a folder, or a name for a new one")
    if not folder.is_dir() or all(each.name.startswith(".") for each in folder.iterdir()):
        return
    if (folder / MANIFEST).is_file():
        of = _read_manifest(folder)["study"]
    else:
        found = study_of_journal(folder / JOURNAL)
        if found is None:
            raise InputError(f"--out {folder}: holds other files; allowed: an empty folder, or a name for a new one")
        of = found
    if of != study:
        raise InputError(f'--out {folder}: is of the study "{of}", not "{study}"; allowed: another --out')


def kept_in(folder: Path) -> KeptRows:
    """The rows that a folder has; what a command that was stopped had begun to put there is undone. Raises InputError
    where they cannot be read."""
    rows, old, journal = folder / ROWS, folder / OLD, folder / JOURNAL
    kept = KeptRows()
    try:
        if old.is_dir() and not rows.exists():
            os.rename(old, rows)
        shutil.rmtree(folder / NEW, ignore_errors=True)
        (folder / NEW_OTHERS).unlink(missing_ok=True)
        for part in (*_parts(rows), *_parts(old), folder / OTHERS):
            if part.is_file():
                kept.add_file(part)
        if journal.is_file():
            kept.add_journal(journal)
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be read: {error.strerror}; allowed: another --out") from None
    return kept


def write_dataset(study: SweepStudy, digests: Sequence[bytes], kept: KeptRows, folder: Path) -> Counts:
    """Replace the data set of a folder by that of a study whose rows are all kept; `digests`: of its points, in order.
    Raises InputError where it cannot be written: what was there stays."""
    import pyarrow as pa

    try:
        counts = _write_rows(study, digests, kept, folder / NEW)
        has_others = _write_others(digests, kept, folder / NEW_OTHERS)
        (folder / MANIFEST).unlink(missing_ok=True)
        if (folder / ROWS).is_dir():
            shutil.rmtree(folder / OLD, ignore_errors=True)
            os.rename(folder / ROWS, folder / OLD)
        os.rename(folder / NEW, folder / ROWS)
        if has_others:
            os.replace(folder / NEW_OTHERS, folder / OTHERS)
        else:
            (folder / OTHERS).unlink(missing_ok=True)
        write_whole(folder / STUDY, study.text)
        write_whole(folder / MANIFEST, manifest_text(study, digests, counts))
        shutil.rmtree(folder / OLD, ignore_errors=True)
        (folder / JOURNAL).unlink(missing_ok=True)
    except (OSError, pa.ArrowException) as error:
        what = getattr(error, "strerror", None) or first_line(error)
        raise InputError(
            f"--out {folder}: cannot be written: {what}; all rows stay in its journal: the same command goes on from "
            "there"
        ) from None
    return counts


def manifest_text(study: SweepStudy, digests: Sequence[bytes], counts: Counts) -> str:
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
        "points_sha256": sha256(b"".join(digests)).hexdigest(),
        "versions": versions("scipy", "pyarrow", *(["optuna"] if study.searched else [])),
    }
    return json.dumps(document, indent=1, default=str, ensure_ascii=False) + "\n"


def _dump(table: BaseModel | None) -> dict[str, Any] | None:
    return None if table is None else table.model_dump()


def _read_manifest(folder: Path) -> dict[str, Any]:
    from simfrontier.io import read_json

    if not (folder / MANIFEST).is_file():
        text = "no data set of a sweep, or one that is not whole yet; allowed: a folder that simfrontier sweep has made"
        raise InputError(text, where=str(folder))
    document = read_json(folder / MANIFEST, "manifest")
    if not isinstance(document, dict) or document.get("kind") != KIND or not isinstance(document.get("study"), str):
        raise InputError("holds results of another command; allowed: a folder of simfrontier sweep", where=str(folder))
    return document


def _parts(folder: Path) -> list[Path]:
    return sorted(folder.glob("part-*.parquet"))


def _write_rows(study: SweepStudy, digests: Sequence[bytes], kept: KeptRows, folder: Path) -> Counts:
    """The parts of a data set, each of so many row groups, each of so many points."""
    import pyarrow.compute as pc

    schema, types = data_schema(study), axis_types(study)
    folder.mkdir()
    rows, refused, refused_whole = 0, 0, 0
    points = zip(study.points(), digests, strict=True)
    writer: Any = None
    for number, group in enumerate(iter(lambda: list(islice(points, POINTS_OF_GROUP)), [])):
        if number % GROUPS_OF_PART == 0:
            _close(writer)
            writer = _writer(folder / f"part-{number // GROUPS_OF_PART:05d}.parquet", schema)
        table, counts = kept.rows_of(digest.hex() for _, digest in group)
        writer.write(_with_axes(table, [point for point, _ in group], counts, types, schema))
        rows += table.num_rows
        is_refused = pc.is_valid(table.column("error")).to_pylist()
        for some in _split(is_refused, counts):
            refused += any(some)
            refused_whole += all(some)
    _close(writer)
    return Counts(points=len(digests), rows=rows, refused=refused, refused_whole=refused_whole)


def _split(cells: Sequence[bool], counts: Sequence[int]) -> Iterator[Sequence[bool]]:
    first = 0
    for count in counts:
        yield cells[first : first + count]
        first += count


def _with_axes(
    table: pa.Table, points: Sequence[Point], counts: Sequence[int], types: dict[str, pa.DataType], schema: pa.Schema
) -> pa.Table:
    """Rows of results with their point and the settings of its axes."""
    import pyarrow as pa

    def spread(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
        cells = zip(values, counts, strict=True)
        return pa.array([value for value, count in cells for _ in range(count)], type=kind)

    columns = {name: table.column(name) for name in table.schema.names}
    columns["point"] = spread((point.number for point in points), pa.int64())
    for key, kind in types.items():
        is_text, is_float = kind == pa.string(), kind == pa.float64()
        values = (axis_cell(point.settings[key], is_text) for point in points)
        columns[AXIS + key] = spread((float(value) if is_float else value for value in values), kind)
    return pa.table([columns[name] for name in schema.names], schema=schema).combine_chunks()


def _write_others(digests: Sequence[bytes], kept: KeptRows, path: Path) -> bool:
    """Rows that are kept and of no point of the study, in the order of their digests; whether there are any."""
    mine = set(digests)
    others = iter(sorted(digest for digest in kept.digests() if bytes.fromhex(digest) not in mine))
    writer: Any = None
    for group in iter(lambda: list(islice(others, POINTS_OF_GROUP)), []):
        writer = writer or _writer(path, result_schema())
        writer.write(kept.rows_of(group)[0].combine_chunks())
    _close(writer)
    return writer is not None


class _Writer:
    """A file of Parquet that is on the disk when it is closed."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        import pyarrow.parquet as pq

        self._file = path.open("xb")
        self._writer = pq.ParquetWriter(
            self._file, schema, version="2.6", compression="zstd", compression_level=3, store_schema=True
        )

    def write(self, table: pa.Table) -> None:
        """One row group."""
        self._writer.write_table(table, row_group_size=max(1, table.num_rows))

    def close(self) -> None:
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()


def _writer(path: Path, schema: pa.Schema) -> _Writer:
    path.unlink(missing_ok=True)
    return _Writer(path, schema)


def _close(writer: _Writer | None) -> None:
    if writer is not None:
        writer.close()
