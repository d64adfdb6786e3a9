"""Rows that are there already, by the digest of their point: in the data set of a folder, beside it, in its journal."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.errors import InputError
from simfrontier.sweep.columns import refuse_columns, result_schema
from simfrontier.sweep.journal import entries, entry_at, table_of

if TYPE_CHECKING:
    import pyarrow as pa

Block = Callable[[], "pa.Table"]  # a part of a file, read when it is asked for
MARKS = ("digest", "point")  # which say where the rows of a point end; rows beside the data set have no point
MOST_READ = 8  # blocks that are held in memory


class KeptRows:
    """Rows by digest; only their places are held in memory."""

    def __init__(self) -> None:
        self._blocks: list[Block] = []
        self._places: dict[bytes, tuple[int, int, int]] = {}  # of a digest: block, first row, how many
        self._read: OrderedDict[int, pa.Table] = OrderedDict()

    def __contains__(self, digest: str) -> bool:
        return bytes.fromhex(digest) in self._places

    def __len__(self) -> int:
        return len(self._places)

    def digests(self) -> Iterator[str]:
        """The digests of all points that are there."""
        return (digest.hex() for digest in self._places)

    def add_block(self, block: Block, digests: Sequence[str], points: Sequence[int] | None = None) -> None:
        """Add a block whose rows have these digests, in order; points that are there already stay where they are.
        `points`: the number of each row's point, where neighbours may be points of one digest."""
        number, first = len(self._blocks), 0
        self._blocks.append(block)
        for (digest, _), rows in groupby(zip(digests, points or [0] * len(digests), strict=True)):
            count = sum(1 for _ in rows)
            self._places.setdefault(bytes.fromhex(digest), (number, first, count))
            first += count

    def add_file(self, path: Path) -> None:
        """Add a file of Parquet. Raises InputError where it is none, or has other columns."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        names = result_schema().names
        try:
            with pq.ParquetFile(path) as file:
                refuse_columns(file.schema_arrow, str(path))
                for group in range(file.num_row_groups):
                    table = file.read_row_group(group, columns=[name for name in MARKS if name in file.schema.names])
                    marks = [table.column(name).to_pylist() for name in table.column_names]
                    self.add_block(_group(path, group, names), *marks)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InputError(f"cannot be read: {first_line(error)}; allowed: another --out", where=str(path)) from None

    def add_journal(self, path: Path) -> None:
        """Add what is whole of a journal. Raises OSError."""
        for place, content in entries(path):
            self.add_entry(path, place, table_of(content).column("digest").to_pylist())

    def add_entry(self, path: Path, place: int, digests: Sequence[str]) -> None:
        """Add the entry of a journal at a place."""
        self.add_block(lambda: table_of(entry_at(path, place)), digests)

    def rows_of(self, digests: Iterable[str]) -> tuple[pa.Table, list[int]]:
        """The rows of points, in this order, and how many each has."""
        import pyarrow as pa

        parts: list[tuple[int, int, int]] = []
        counts: list[int] = []
        for digest in digests:
            block, first, count = self._places[bytes.fromhex(digest)]
            counts.append(count)
            if parts and parts[-1][0] == block and sum(parts[-1][1:]) == first:
                parts[-1] = block, parts[-1][1], parts[-1][2] + count
            else:
                parts.append((block, first, count))
        tables = [self._table(block).slice(first, count) for block, first, count in parts]
        return (pa.concat_tables(tables) if tables else result_schema().empty_table()), counts

    def _table(self, block: int) -> pa.Table:
        table = self._read.pop(block, None)
        if table is None:
            table = self._blocks[block]()
            while len(self._read) >= MOST_READ:
                self._read.popitem(last=False)
        self._read[block] = table
        return table


def _group(path: Path, group: int, names: list[str]) -> Block:
    """A row group of a file, with the columns of results."""

    def read() -> Any:
        import pyarrow.parquet as pq

        with pq.ParquetFile(path) as file:
            return file.read_row_group(group, columns=names).select(names).replace_schema_metadata(None)

    return read


def first_line(error: Exception) -> str:
    """The first line of what a library says."""
    return str(error).partition("\n")[0][:200]
