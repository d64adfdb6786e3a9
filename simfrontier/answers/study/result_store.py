"""A store of results by key: an SQLite file in a results folder, or in memory.

Every `add` is one transaction: however a process ends, earlier results are available when the same command is run
again. One process at a time locks the file, which belongs to one sweep or one search.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.version import __version__

STORE: Final = "results.sqlite"


class HeldError(InputError):
    """Raised when another process has locked the store."""


class ResultStore:
    """Results by key, each a JSON value.

    `path`: the file; None: in memory only. `owner`: identifies the sweep or search of the results; "" accepts any.
    `is_done_with`: whether the results are no longer needed, so that `store_in` removes the store. Raises InputError
    for a file of another owner or version, and for one that is no store; HeldError if another process has locked it.
    """

    def __init__(self, path: Path | None = None, owner: str = "") -> None:
        self.path, self.is_done_with = path, False
        try:
            self._file = sqlite3.connect(path or ":memory:", timeout=0.0, isolation_level=None)
            version, of = self._prepared(owner)
        except sqlite3.Error as error:
            raise self._fault(error) from None
        if version != __version__:
            fault = f"has results of simfrontier {version}; allowed: of {__version__}"
        elif owner not in ("", of):
            fault = f"has results of {of}; allowed: another --out"
        else:
            return
        self.close()
        raise InputError(f"{fault}, or --fresh, which forgets them", where=str(path))

    def _prepared(self, owner: str) -> tuple[str, str]:
        """Lock the file, create its tables if it is new, and return the version and the owner of its results."""
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._file.execute("BEGIN EXCLUSIVE")
        if not self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._file.execute("CREATE TABLE store (version TEXT NOT NULL, owner TEXT NOT NULL)")
            self._file.execute("CREATE TABLE result (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
            self._file.execute("INSERT INTO store VALUES (?, ?)", (__version__, owner))
        version, of = self._file.execute("SELECT version, owner FROM store").fetchone()
        self._file.execute("COMMIT")
        return version, of

    def __contains__(self, key: str) -> bool:
        return self._file.execute("SELECT 1 FROM result WHERE key = ?", (key,)).fetchone() is not None

    def __len__(self) -> int:
        return int(self._file.execute("SELECT count(*) FROM result").fetchone()[0])

    def get(self, key: str) -> Any | None:
        """Return the result of a key; None where there is none."""
        found = self._file.execute("SELECT value FROM result WHERE key = ?", (key,)).fetchone()
        return None if found is None else json.loads(zlib.decompress(found[0]))

    def add(self, results: Mapping[str, Any]) -> None:
        """Store results. Raises InputError if they cannot be written; earlier results are kept."""
        rows = [(key, zlib.compress(json.dumps(value).encode())) for key, value in results.items()]
        try:
            self._file.execute("BEGIN")
            self._file.executemany("INSERT OR REPLACE INTO result VALUES (?, ?)", rows)
            self._file.execute("COMMIT")
        except sqlite3.Error as error:
            raise self._fault(error) from None

    def close(self) -> None:
        """Close the file and release its lock."""
        self._file.close()

    def _fault(self, error: sqlite3.Error) -> InputError:
        where = str(self.path)
        if "locked" in str(error):
            text = "another process writes it; allowed: another --out, or this one when that is done"
            return HeldError(text, where=where)
        if isinstance(error, sqlite3.OperationalError) and "no such" not in str(error):
            text = f"cannot be written: {error}; what it has stays: the same command resumes"
        else:
            text = "is no store of results, or damaged; allowed: --fresh, which forgets it, or another --out"
        return InputError(text, where=where)


@contextmanager
def store_in(folder: Path | None, owner: str = "") -> Iterator[ResultStore]:
    """Open the store of a folder, which is created if necessary; None: in memory only. At the end an empty store, or
    one that is marked as done with, is removed, together with the folders created for it. Raises as `ResultStore`, and
    InputError if the store cannot be written.
    """
    if folder is None:
        yield ResultStore()
        return
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder}: cannot be written: {error.strerror}") from None
    store = ResultStore(folder / STORE, owner)
    try:
        yield store
    finally:
        is_over = store.is_done_with or not len(store)
        store.close()
        if is_over:
            _remove(folder)
        with suppress(OSError):  # there is something in it
            for each in made:
                each.rmdir()


def forget(folder: Path) -> None:
    """Remove the store of a folder, if there is one, whoever owns it. Raises HeldError if another process has locked
    it, InputError if it cannot be removed.
    """
    if (folder / STORE).is_file():
        try:
            ResultStore(folder / STORE).close()
        except HeldError:
            raise
        except InputError:  # of another version, or no store
            pass
    _remove(folder)


def _remove(folder: Path) -> None:
    for path in (folder / STORE, folder / f"{STORE}-journal"):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"cannot be removed: {error.strerror}", where=str(path)) from None
