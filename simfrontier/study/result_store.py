"""A store of results by key: an SQLite file in a folder of results, or memory alone.

Every `add` is one transaction: whatever ends a process, what was added before is there when the same command is given
again. One process at a time holds the file.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from simfrontier import __version__
from simfrontier.errors import InputError

STORE: Final = "results.sqlite"
GOES_ON: Final = "what it has stays: the same command goes on from there"


class NotKeptError(InputError):
    """A result that cannot be kept; those that were kept stay."""


class ResultStore:
    """Results by key, each what JSON holds. `path`: the file; None: in memory alone. `is_done_with`: whether nobody
    needs the results any more, which `store_in` removes then."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.was_written, self.is_done_with = path, False, False
        try:
            self._file = sqlite3.connect(path or ":memory:", timeout=0.0, isolation_level=None)
        except sqlite3.Error as error:
            raise self._fault(error) from None
        try:
            self._prepare()
        except BaseException as error:
            self._file.close()
            raise (self._fault(error) if isinstance(error, sqlite3.Error) else error) from None

    def _prepare(self) -> None:
        """Hold the file, and make its tables where it is new. Raises sqlite3.Error, and InputError for another
        version's."""
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._file.execute("BEGIN EXCLUSIVE")
        self._file.execute("CREATE TABLE IF NOT EXISTS store (version TEXT NOT NULL)")
        self._file.execute("CREATE TABLE IF NOT EXISTS result (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
        found = self._file.execute("SELECT version FROM store").fetchone()
        if found is None:
            self._file.execute("INSERT INTO store VALUES (?)", (__version__,))
        self._file.execute("COMMIT")
        if found is not None and found[0] != __version__:
            raise InputError(
                f"has results of simfrontier {found[0]}; allowed: of {__version__}, or --fresh, which forgets them",
                where=str(self.path),
            )

    def __contains__(self, key: str) -> bool:
        return self._one("SELECT 1 FROM result WHERE key = ?", key) is not None

    def __len__(self) -> int:
        return int(self._one("SELECT count(*) FROM result")[0])

    def get(self, key: str) -> Any | None:
        """The result of a key; None where there is none."""
        found = self._one("SELECT value FROM result WHERE key = ?", key)
        if found is None:
            return None
        try:
            return json.loads(zlib.decompress(found[0]))
        except (zlib.error, ValueError):
            raise self._damaged() from None

    def add(self, results: Mapping[str, Any]) -> None:
        """Keep results. Raises NotKeptError where they cannot be written."""
        rows = [(key, zlib.compress(json.dumps(value).encode())) for key, value in results.items()]
        try:
            self._file.execute("BEGIN")
            self._file.executemany("INSERT OR REPLACE INTO result VALUES (?, ?)", rows)
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise NotKeptError(f"cannot be written: {error}; {GOES_ON}", where=str(self.path)) from None
        self.was_written = True

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def _one(self, query: str, *given: str) -> Any:
        try:
            return self._file.execute(query, given).fetchone()
        except sqlite3.Error as error:
            raise self._fault(error) from None

    def _fault(self, error: sqlite3.Error) -> InputError:
        if "locked" in str(error):
            text = "another process writes it; allowed: another --out, or this one when that is done"
            return InputError(text, where=str(self.path))
        if isinstance(error, sqlite3.OperationalError):
            return InputError(f"cannot be written: {error}; allowed: a folder that you may write", where=str(self.path))
        return self._damaged()

    def _damaged(self) -> InputError:
        text = "is no store of results, or damaged; allowed: --fresh, which forgets it, or another --out"
        return InputError(text, where=str(self.path))


@contextmanager
def store_in(folder: Path | None) -> Iterator[ResultStore]:
    """The store of a folder, which is made where it is not there; None: in memory alone. A store to which nothing was
    added is removed, with the folders that were made for it. Raises InputError where it cannot be read or written, is
    another version's, or another process holds it."""
    if folder is None:
        yield ResultStore()
        return
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written: {error.strerror}") from None
    is_new, store = not (folder / STORE).exists(), None
    try:
        store = ResultStore(folder / STORE)
        yield store
    finally:
        if store is not None:
            store.close()
        is_unused = is_new and (store is None or not store.was_written)
        if is_unused or (store is not None and store.is_done_with):
            forget(folder)
            _remove_empty(made)


def forget(folder: Path) -> None:
    """Remove the store of a folder, if there is one. Raises InputError where it cannot be removed."""
    for end in ("", "-journal"):
        path = folder / f"{STORE}{end}"
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot be removed: {error.strerror}", where=str(path)) from None


def _remove_empty(folders: list[Path]) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:  # there is something in it
            return
