"""The events of a trace file one after the other, however large it is: nothing of it is run, and no more is held than
one event.

A file is JSON, plain or gzipped: an object whose `traceEvents` is a list of events, or such a list by itself. Events
are read by Python's JSON reader out of a window of the text that has room for the largest that is taken.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final

from simfrontier.errors import InputError
from simfrontier.io import reading
from simfrontier.limits import FILE, KINETO_EVENT, KINETO_HEAD, KINETO_PACKED

_CHUNK: Final = 1 << 18  # characters read at once
_GZIP: Final = b"\x1f\x8b"
_BLANKS: Final = re.compile(r"[ \t\n\r]*")
_LEAST_UNPACKED: Final = 1 << 24  # what a file may be unpacked to whatever its size
EVENTS: Final = "traceEvents"


@dataclass(slots=True)
class KinetoFile:
    """`head`: what the file says beside its events, all of it when these have been gone through."""

    path: Path
    head: dict[str, Any] = field(default_factory=dict)

    def events(self) -> Iterator[dict[str, Any]]:
        """Every event that is an object. Raises InputError for a file that is no trace, is cut short, or is larger than
        what is taken once it is unpacked."""
        try:
            with reading(self.path, "trace"), _opened(self.path) as file:
                yield from self._read(_Window(self.path, file))
        except (EOFError, zlib.error):
            raise InputError("cannot unpack this trace: it is cut short or damaged", where=str(self.path)) from None
        except UnicodeDecodeError:
            raise InputError("bytes that are not UTF-8; allowed: a trace as JSON", where=str(self.path)) from None

    def _read(self, window: _Window) -> Iterator[dict[str, Any]]:
        match window.next():
            case "[":
                yield from _listed(window)
            case "{":
                yield from self._members(window)
            case _:
                raise window.fault("no JSON object or list; allowed: a trace of PyTorch's profiler")
        if window.next():
            raise window.fault("more text behind the trace")

    def _members(self, window: _Window) -> Iterator[dict[str, Any]]:
        seen, left = False, KINETO_HEAD.most
        for key in _keys(window):
            if key in self.head or (key == EVENTS and seen):
                raise window.fault(f"key {json.dumps(key[:40])} twice")
            if key != EVENTS:
                before = window.at
                self.head[key] = window.value(left)
                left -= window.at - before
                continue
            seen = True
            if window.next() != "[":
                raise window.fault(f"{EVENTS} is no list")
            yield from _listed(window)
        if not seen:
            raise InputError(f"no list {EVENTS}; allowed: a trace of PyTorch's profiler", where=str(self.path))


def _keys(window: _Window) -> Iterator[str]:
    """The keys of an object; its values are read in between."""
    if window.peek() == "}":
        window.next()
        return
    while True:
        key = window.value(KINETO_EVENT.most)
        if not isinstance(key, str) or window.next() != ":":
            raise window.fault("no key and value")
        yield key
        match window.next():
            case ",":
                continue
            case "}":
                return
            case _:
                raise window.fault("no comma or brace behind a value")


def _listed(window: _Window) -> Iterator[dict[str, Any]]:
    """The objects of a list, whose bracket has been read."""
    if window.peek() == "]":
        window.next()
        return
    while True:
        event = window.value(KINETO_EVENT.most)
        if not isinstance(event, dict):
            raise window.fault("an event that is no object")
        yield event
        match window.next():
            case ",":
                continue
            case "]":
                return
            case _:
                raise window.fault("no comma or bracket behind an event")


class _Window:
    """The text of a file from some place on."""

    def __init__(self, path: Path, file: IO[str]) -> None:
        self._path, self._file = path, file
        packed = path.stat().st_size
        self._most = min(FILE.most_bytes, max(_LEAST_UNPACKED, packed * KINETO_PACKED.most))
        self._text, self._at, self._before, self._ended = "", 0, 0, False
        self._decoder = json.JSONDecoder(parse_constant=_refuse_constant)

    @property
    def at(self) -> int:
        """How many characters have been read."""
        return self._before + self._at

    def peek(self) -> str:
        """The next character that is no blank; empty at the end."""
        while True:
            blanks = _BLANKS.match(self._text, self._at)
            self._at = self._at if blanks is None else blanks.end()
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                return ""

    def next(self) -> str:
        """The same, read."""
        found = self.peek()
        self._at += len(found)
        return found

    def value(self, most: int) -> Any:
        """The next value, which takes at most so many characters."""
        self.peek()
        while True:
            try:
                value, end = self._decoder.raw_decode(self._text, self._at)
            except RecursionError:
                raise self.fault("values nested too deeply") from None
            except ValueError as error:
                if isinstance(error, _NoNumber):
                    raise self.fault(str(error)) from None
                if not isinstance(error, json.JSONDecodeError):
                    raise self.fault("a number of too many digits") from None
                if len(self._text) - self._at > most:
                    raise self.fault(f"no JSON value of at most {most:,} characters") from None
                if not self._more():
                    raise self.fault("no JSON value here, or the file ends within it (cut short)") from None
                continue
            if end == len(self._text) and self._more():
                continue  # of a number there may be more
            if end - self._at > most:
                raise self.fault(f"a value of more than {most:,} characters")
            self._at = end
            return value

    def fault(self, what: str) -> InputError:
        return InputError(f"character {self.at + 1:,}: {what}", where=str(self._path))

    def _more(self) -> bool:
        if self._ended:
            return False
        kept = self._text[self._at :]
        chunk = self._file.read(max(_CHUNK, len(kept)))  # so that what does not fit is tried a few times only
        self._before += self._at
        unpacked = self._before + len(kept) + len(chunk)
        if unpacked > self._most:
            text = f"more than {self._most:,} characters once unpacked; allowed: up to so many from such a file"
            raise InputError(text, where=str(self._path))
        self._text, self._at, self._ended = kept + chunk, 0, not chunk
        return bool(chunk)


class _NoNumber(ValueError):
    """What Python's reader would take for a number, and JSON does not."""


def _refuse_constant(name: str) -> float:
    raise _NoNumber(f"{name} is no number of JSON")


@contextmanager
def _opened(path: Path) -> Iterator[IO[str]]:
    with path.open("rb") as raw:
        packed = raw.read(2) == _GZIP
        raw.seek(0)
        with gzip.GzipFile(fileobj=raw) if packed else nullcontext(raw) as file:
            yield io.TextIOWrapper(file, encoding="utf-8-sig")
