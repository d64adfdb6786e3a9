"""A store of results by key: an SQLite file in a folder of results, or memory alone.

Every `add` is one transaction: whatever ends a process, what was added before is there when the same command is given
again. One process at a time holds the file, which is of one sweep or one search.
"""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.version import __version__

STORE: Final = "results.sqlite"
GOES_ON: Final = "what it has stays: the same command resumes"


class NotKeptError(InputError):
    """A result that cannot be kept; those that were kept stay."""


class HeldError(InputError):
    """A store that another process holds."""


class ResultStore:
    """Results by key, each what JSON holds.

    `path`: the file; None: in memory alone. `owner`: what the results are of; "" for whatever it is. `is_new`: whether
    nothing was there before; `was_written`: whether results were added since. `is_done_with`: whether nobody needs the
    results any more, which `store_in` removes then. Raises InputError for a file of another owner or version, and for
    one that is no store; HeldError where another process holds it.
    """

    def __init__(self, path: Path | None = None, owner: str = "") -> None:
        self.path, self.is_new, self.was_written, self.is_done_with = path, False, False, False
        if path is not None and path.is_symlink():
            raise InputError("is a link; allowed: a file", where=str(path))
        try:
            self._file = sqlite3.connect(path or ":memory:", timeout=0.0, isolation_level=None)
        except sqlite3.Error as error:
            raise self._fault(error) from None
        try:
            self._prepare(owner)
        except sqlite3.Error as error:
            self._file.close()
            raise self._fault(error) from None
        except InputError:
            self._file.close()
            raise

    def _prepare(self, owner: str) -> None:
        """Hold the file, and make its tables where it is new. Raises sqlite3.Error, and InputError as the class."""
        self._file.execute("PRAGMA locking_mode = EXCLUSIVE")
        self._file.execute("BEGIN EXCLUSIVE")
        self.is_new = not self._file.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if self.is_new:
            self._file.execute("CREATE TABLE store (version TEXT NOT NULL, owner TEXT NOT NULL)")
            self._file.execute("CREATE TABLE result (key TEXT PRIMARY KEY, value BLOB) WITHOUT ROWID")
            self._file.execute("INSERT INTO store VALUES (?, ?)", (__version__, owner))
        version, of = self._file.execute("SELECT version, owner FROM store").fetchone()
        self._file.execute("COMMIT")
        if version != __version__:
            text = f"has results of simfrontier {version}; allowed: of {__version__}, or --fresh, which forgets them"
            raise InputError(text, where=str(self.path))
        if owner and of != owner:
            text = f"has results of {of}; allowed: another --out, or --fresh, which forgets them"
            raise InputError(text, where=str(self.path))

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
            return HeldError(text, where=str(self.path))
        if isinstance(error, sqlite3.OperationalError) and "no such" not in str(error):
            return InputError(f"cannot be written: {error}; allowed: a folder that you may write", where=str(self.path))
        return self._damaged()

    def _damaged(self) -> InputError:
        text = "is no store of results, or damaged; allowed: --fresh, which forgets it, or another --out"
        return InputError(text, where=str(self.path))


@contextmanager
def store_in(folder: Path | None, owner: str = "") -> Iterator[ResultStore]:
    """The store of a folder, which is made where it is not there; None: in memory alone. A store to which nothing was
    added is removed, with the folders that were made for it. Raises as `ResultStore`, and InputError where it cannot be
    written."""
    if folder is None:
        yield ResultStore()
        return
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    store = None
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"--out {folder}: cannot be written: {error.strerror}") from None
        store = ResultStore(folder / STORE, owner)
        yield store
    finally:
        if store is not None and (store.is_done_with or (store.is_new and not store.was_written)):
            _remove(folder)
        if store is not None:
            store.close()
        _remove_empty(made)


def forget(folder: Path) -> None:
    """Remove the store of a folder, whatever it is of, if there is one. Raises HeldError where another process holds
    it, InputError where it cannot be removed."""
    if not (folder / STORE).is_file() or (folder / STORE).is_symlink():
        return _remove(folder)
    store = None
    try:
        store = ResultStore(folder / STORE)
    except HeldError:
        raise
    except InputError:  # of another version, or no store
        pass
    _remove(folder)
    if store is not None:
        store.close()


def _remove(folder: Path) -> None:
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
