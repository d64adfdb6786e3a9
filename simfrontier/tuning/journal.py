"""The journal of a search: every result as one line of a file, so that a search that was stopped goes on from there.

A line is a checksum and a JSON list [kind, key, value]. The checksum also covers the digest of all that the search
depends on: a line of another search, a damaged one and one that was cut short are work that is not done.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import IO, Any

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.inputfile import open_input
from simfrontier.limits import JOURNAL_FILE, JOURNAL_LINE
from simfrontier.wholefile import NO_LINKS, write_all, write_whole
from simfrontier.workers import LostError

NAME = "search.jsonl"
Readers = Mapping[str, Callable[[Mapping[str, Any]], object]]


class JournalError(InputError):
    """A result cannot be kept; those that were kept stay."""


@dataclass
class Journal:
    """Results by kind and key, of one search with that `digest`; `is_answered` when nothing is left to search."""

    digest: str = ""
    known: dict[tuple[str, str], Any] = field(default_factory=dict)
    path: Path | None = None
    file: int | None = None
    is_answered: bool = False

    def get(self, kind: str, key: str) -> Any | None:
        """A result that is there already."""
        return self.known.get((kind, key))

    def add(self, kind: str, key: str, value: Any) -> None:
        """Keep a result. Raises JournalError."""
        self.known[kind, key] = value
        if self.file is not None:
            try:
                write_all(self.file, _line(self.digest, [kind, key, value]).encode())
            except OSError as error:
                raise JournalError(
                    f"{self.path}: cannot be written: {error.strerror}; what it has stays: the same command goes on "
                    "from there"
                ) from None


@contextmanager
def journal_in(folder: Path | None, digest: str, readers: Readers) -> Iterator[Journal]:
    """The journal of a search with that digest of all that it depends on, in a folder (None: none is kept).

    `readers`: by kind what makes a result of a value; a value of which it raises an error is work that is not done.
    When the search is done the file is removed; after an error or an interruption it stays, but for a search that
    cannot be made. Raises InputError where it cannot be written, or is of another search.
    """
    if folder is None:
        yield Journal()
        return
    path = folder / NAME
    known = _read(path, digest, readers)
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    journal = _opened(path, digest, known)
    assert journal.file is not None
    try:
        yield journal
    except LostError as error:
        raise type(error)(f"{error}; {path} has what is done: the same command goes on from there") from None
    except JournalError:
        raise
    except SimfrontierError:
        if not journal.is_answered:  # the answer is that the search cannot be made
            _forget(path, made)
        raise
    finally:
        os.close(journal.file)
    _forget(path, [])


def _line(digest: str, results: list[Any]) -> str:
    text = json.dumps(results)
    return f"{_sum(digest, text.encode())} {text}\n"


def _sum(digest: str, text: bytes) -> str:
    return sha256(digest.encode() + b" " + text).hexdigest()[:16]


def _opened(path: Path, digest: str, known: Mapping[tuple[str, str], Any]) -> Journal:
    """The file with what is known, written anew as a whole, and open for more."""
    lines = [_line("", ["search", digest]), *(_line(digest, [*place, value]) for place, value in known.items())]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {path.parent}: cannot be written: {error.strerror}") from None
    write_whole(path, "".join(lines))
    try:
        file = os.open(path, os.O_WRONLY | os.O_APPEND | NO_LINKS)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    return Journal(digest=digest, known=dict(known), path=path, file=file)


def _forget(path: Path, made: list[Path]) -> None:
    path.unlink(missing_ok=True)
    for place in made:
        with suppress(OSError):  # there is something else in it
            place.rmdir()


def _read(path: Path, digest: str, readers: Readers) -> dict[tuple[str, str], Any]:
    """The results in a file. Raises InputError where it is of another search."""
    known: dict[tuple[str, str], Any] = {}
    if not path.is_file():
        return known
    try:
        with open_input(path) as file:
            for number, line in enumerate(_lines(file)):
                if number == 0:
                    _refuse_another(path, line, digest)
                entry = _checked(line, digest)
                if entry is None:
                    continue
                try:
                    kind, key, value = entry
                    readers[kind](value)
                    known[kind, str(key)] = value
                except (AttributeError, KeyError, TypeError, ValueError):  # of other code that says it is this version
                    continue
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}; allowed: --fresh, which forgets it") from None
    return known


def _lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a file, without those that are too long; what is beyond its limit is work that is not done."""
    left, longest = JOURNAL_FILE.most_bytes, JOURNAL_LINE.most
    while left > 0 and (line := file.readline(longest)):
        left -= len(line)
        if len(line) < longest:
            yield line
            continue
        while left > 0 and line and not line.endswith(b"\n"):
            line = file.readline(longest)
            left -= len(line)


def _checked(line: bytes, digest: str) -> list[Any] | None:
    """What a line says if its checksum is right; nothing else of it is looked at."""
    message, _, text = line.rstrip(b"\n").partition(b" ")
    if message != _sum(digest, text).encode():
        return None
    try:
        entry = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, list) else None


def _refuse_another(path: Path, line: bytes, digest: str) -> None:
    entry = _checked(line, "")
    if entry is not None and entry[:1] == ["search"] and entry[1:] != [digest]:
        raise InputError(
            f"{path}: is of another search that was stopped (another scenario, size, pins or version); "
            "allowed: --fresh, which forgets it, or another folder"
        )
