"""The rows of a sweep, read from its data set: columns of numbers or of texts, counted before they are read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simfrontier.errors import InputError, nearest, shown
from simfrontier.limits import CELLS, SWEEP_AXES, SWEEP_PARTS, SWEEP_ROWS, SWEEP_TEXTS, TEXT
from simfrontier.plaintext import without_controls
from simfrontier.records import dataclass
from simfrontier.report.findings.sweep_columns import KNOWN, QUANTITIES
from simfrontier.sweep import AXIS, ROWS, manifest_of

if TYPE_CHECKING:
    from simfrontier.arrays import Floats, Ints

_DAMAGED: Final = "a data set as `simfrontier sweep` writes it; the same sweep again makes it whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """A column of numbers; NaN where a row has none."""

    values: Floats
    is_whole: bool

    def at(self, rows: Ints) -> Numbers:
        return Numbers(values=self.values[rows], is_whole=self.is_whole)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A column of texts, or of truths ("no" and "yes"): for each row the place of its text, -1 where it has none."""

    places: Ints
    texts: tuple[str, ...]
    is_truth: bool = False

    def at(self, rows: Ints) -> Words:
        return Words(places=self.places[rows], texts=self.texts, is_truth=self.is_truth)


Column = Numbers | Words
Rows = Mapping[str, Column]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSet:
    """A data set whose rows have been counted, and whose columns are known. `manifest`: as written beside it; `axes`:
    keys of scenarios."""

    folder: Path
    manifest: Mapping[str, Any]
    parts: tuple[Path, ...]
    names: tuple[str, ...]
    num_rows: int

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(name.removeprefix(AXIS) for name in self.names if name.startswith(AXIS))

    def read(self, names: Sequence[str], rows: Ints | None = None) -> dict[str, Column]:
        """Columns by name, of these rows (in ascending order) or of all. Raises InputError for what is damaged."""
        import pyarrow as pa

        tables, first = [], 0
        for part in self.parts:
            table = _read(part, names)
            size = table.num_rows
            if rows is not None:
                table = table.take(pa.array(rows[(rows >= first) & (rows < first + size)] - first))
            first += size
            tables.append(table)
        with _told(self.folder / ROWS):
            whole = pa.concat_tables(tables, promote_options="permissive").unify_dictionaries().combine_chunks()
            return {name: _column(whole.column(name), name, self.folder / ROWS) for name in names}


def data_set_of(folder: Path) -> DataSet:
    """The data set in the folder of a sweep. Raises InputError where there is none, or one without rows, too large, or
    with columns that are not known."""
    manifest, where = manifest_of(folder), folder / ROWS
    parts = (where,) if where.is_file() else ()
    if not parts:
        raise InputError(f"has no rows; allowed: {_DAMAGED}", where=str(where))
    _refuse(SWEEP_PARTS.fault(len(parts)), where)
    names, num_rows = dict[str, None](), 0
    for part in parts:
        with _told(part):
            import pyarrow.parquet as pq

            with pq.ParquetFile(part) as file:
                num_rows += file.metadata.num_rows
                _refuse(CELLS.fault(file.metadata.num_columns), part)
                names |= dict.fromkeys(file.schema_arrow.names)
    _refuse(SWEEP_ROWS.fault(num_rows), where)
    _refuse_columns(names, where)
    if num_rows == 0:
        raise InputError(f"has no rows; allowed: {_DAMAGED}", where=str(where))
    return DataSet(folder=folder, manifest=manifest, parts=parts, names=tuple(names), num_rows=num_rows)


def _refuse_columns(names: Iterable[str], where: Path) -> None:
    """Raise InputError for columns that are missing, that are not known, and for too many axes."""
    for name in names:
        if not name.startswith(AXIS) and name not in KNOWN:
            known = f"{nearest(name, KNOWN)} (another version of simfrontier may have written it)"
            raise InputError(f"got the column {shown(without_controls(name))}; {known}", where=str(where))
    if missing := [name for name in KNOWN if name not in names]:
        raise InputError(f"no such column; allowed: {_DAMAGED}", where=str(where), key=(missing[0],))
    _refuse(SWEEP_AXES.fault(sum(name.startswith(AXIS) for name in names)), where)


def _refuse(fault: str | None, where: Path) -> None:
    if fault:
        raise InputError(fault, where=str(where))


@contextmanager
def _told(where: Path) -> Iterator[None]:
    """What Arrow or the system says of a file that cannot be read, as one line."""
    import pyarrow as pa

    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:  # ArrowInvalid is a ValueError
        if isinstance(error, InputError):
            raise
        said = without_controls(str(error)).strip().partition("\n")[0]
        raise InputError(f"cannot be read: {said[:200]}; allowed: {_DAMAGED}", where=str(where)) from None


def _read(part: Path, names: Sequence[str]) -> Any:
    """Columns of one file; texts as places in a list of them. Where an axis is new in a later file, none of it."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with _told(part):
        with pq.ParquetFile(part) as file:
            schema = file.schema_arrow
        texts = [
            name
            for name in names
            if name in schema.names and schema.field(name).type in (pa.string(), pa.large_string())
        ]
        with pq.ParquetFile(part, read_dictionary=texts) as file:
            table = file.read(columns=[name for name in names if name in schema.names], use_threads=False)
        for name in names:
            if name not in schema.names:
                table = table.append_column(name, pa.nulls(table.num_rows))
        return table.select(list(names))


def _column(column: Any, name: str, where: Path) -> Column:
    """A column of Arrow as numbers or words. Raises InputError where it is of another type than its name says."""
    import pyarrow as pa

    kind = column.type
    unit = QUANTITIES[name].unit if name in QUANTITIES else ""
    made: Column | None = None
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        made = _words(column, name, where)
    elif pa.types.is_boolean(kind):
        made = _truths(column)
    elif pa.types.is_integer(kind) or pa.types.is_floating(kind):
        made = _numbers(column, pa.types.is_integer(kind))
    elif pa.types.is_null(kind):
        made = _empty(len(column), unit)
    is_right = name.startswith(AXIS) or _kind(made) == _wanted(name, unit)
    if made is None or not is_right:
        raise InputError(f"got {shown(str(kind))}, allowed: {_wanted(name, unit)}", where=str(where), key=(name,))
    return made


def _wanted(name: str, unit: str) -> str:
    if name == "digest" or unit == "text":
        return "texts"
    return "true or false" if unit == "truth" else "numbers"


def _kind(column: Column | None) -> str:
    if isinstance(column, Words):
        return "true or false" if column.is_truth else "texts"
    return "numbers"


def _numbers(column: Any, is_whole: bool) -> Numbers:
    import numpy as np
    import pyarrow as pa

    values = column.cast(pa.float64(), safe=False).to_numpy()
    values = np.where(np.isfinite(values), values, np.nan)  # also those that are missing
    return Numbers(values=values, is_whole=is_whole)


def _truths(column: Any) -> Words:
    import numpy as np
    import pyarrow as pa

    places = column.cast(pa.int64()).fill_null(-1).to_numpy().astype(np.int64)
    return Words(places=places, texts=("no", "yes"), is_truth=True)


def _empty(size: int, unit: str) -> Column:
    import numpy as np

    if unit in ("text", "truth"):
        return Words(places=np.full(size, -1), texts=(), is_truth=unit == "truth")
    return Numbers(values=np.full(size, np.nan), is_whole=False)


def _words(column: Any, name: str, where: Path) -> Words:
    """Texts that occur, in the order of the alphabet; an empty one is none."""
    import numpy as np
    import pyarrow as pa

    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    array = array.chunk(0) if isinstance(array, pa.ChunkedArray) else array
    places = array.indices.cast(pa.int64()).fill_null(-1).to_numpy().astype(np.int64)
    used = np.unique(places[places >= 0])
    if fault := SWEEP_TEXTS.fault(used.size):
        raise InputError(fault, where=str(where), key=(name,))
    known = array.dictionary.take(pa.array(used)).to_pylist() if used.size else []
    clean = [without_controls(text or "")[: TEXT.most] for text in known]
    texts = sorted({text for text in clean if text})
    place_of = {text: place for place, text in enumerate(texts)}
    new = np.full(int(used[-1]) + 2 if used.size else 1, -1)  # the last is of those without a text
    new[used] = [place_of.get(text, -1) for text in clean]
    return Words(places=new[places], texts=tuple(texts))
