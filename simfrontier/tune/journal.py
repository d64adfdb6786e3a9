"""The journal of a search: every result as one line of a file, so that a search that was stopped goes on from there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.tune.crew import CrewLostError

NAME = "search.jsonl"


@dataclass
class Journal:
    """Results by kind and key; of another search's file (another `digest`) nothing is read."""

    known: dict[tuple[str, str], Any] = field(default_factory=dict)
    file: IO[str] | None = None

    def get(self, kind: str, key: str) -> Any | None:
        """A result that is there already."""
        return self.known.get((kind, key))

    def add(self, kind: str, key: str, value: Any) -> None:
        """Keep a result."""
        self.known[kind, key] = value
        if self.file is not None:
            self.file.write(json.dumps([kind, key, value]) + "\n")
            self.file.flush()


@contextmanager
def journal_in(folder: Path | None, digest: str) -> Iterator[Journal]:
    """The journal of a search with that digest of all that it depends on, in a folder (None: none is kept). When the
    search is done it is removed; after an error or an interruption it stays. Raises InputError where it cannot be
    written."""
    if folder is None:
        yield Journal()
        return
    path = folder / NAME
    known = _read(path, digest)
    made = [place for place in (folder, *folder.parents) if not place.exists()]
    journal = _opened(path, digest)
    assert journal.file is not None
    try:
        for (kind, key), value in known.items():
            journal.add(kind, key, value)
        yield journal
    except CrewLostError:
        raise
    except SimfrontierError:
        journal.file.close()
        _forget(path, made)  # the search has its answer, or cannot be made
        raise
    finally:
        journal.file.close()
    _forget(path, [])


def _opened(path: Path, digest: str) -> Journal:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("w", encoding="utf-8")
        file.write(json.dumps(["search", digest, None]) + "\n")
    except OSError as error:
        raise InputError(f"--out {path.parent}: cannot be written: {error.strerror}") from None
    return Journal(file=file)


def _forget(path: Path, made: list[Path]) -> None:
    path.unlink(missing_ok=True)
    for place in made:
        with suppress(OSError):  # there is something else in it
            place.rmdir()


def _read(path: Path, digest: str) -> dict[tuple[str, str], Any]:
    """The results in a file; nothing of a search with another digest, nor what was cut short."""
    known: dict[tuple[str, str], Any] = {}
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return known
    for number, line in enumerate(lines):
        try:
            kind, key, value = json.loads(line)
        except (ValueError, TypeError):
            break
        if not isinstance(kind, str) or not isinstance(key, str) or (number and not isinstance(value, dict)):
            break
        if number == 0:
            if (kind, key) != ("search", digest):
                break
        else:
            known[str(kind), str(key)] = value
    return known
