"""The text of a TOML or JSON file as a document of plain values: bounded, every key once, and with nothing in it that a
terminal would not show. Whatever is wrong is one InputError that names the file, and the line where it is known."""

from __future__ import annotations

import copy
import datetime
import json
import tomllib
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Never

from simfrontier.errors import InputError, shown
from simfrontier.limits import JSON_FILE, LINE, TOML_DEPTH, TOML_DOTS, TOML_FILE, FileLimit
from simfrontier.plaintext import control_in, escape_in

DEEP: Final = "nested too deeply"
DIGITS: Final = "a number of more digits than are read"  # the only other ValueError of Python's readers


class _Refused(ValueError):
    """A text that this module refuses."""


def read_toml(path: Path, title: str) -> dict[str, Any]:
    """The document in a file; `title`, what it should be, is for the message. Raises InputError."""
    return toml_of(text_of(path, title, TOML_FILE, "TOML file"), str(path))


def read_json(path: Path, title: str, limit: FileLimit = JSON_FILE) -> Any:
    """The value in a file; `title`, what it should be, is for the message. Raises InputError."""
    return json_of(text_of(path, title, limit), str(path), title)


def toml_of(text: str, where: str) -> dict[str, Any]:
    """The document that a text of the file `where` describes. Raises InputError."""
    try:
        return copy.deepcopy(_toml(text))
    except RecursionError:
        raise InputError(f"not a TOML file: {DEEP}", where=where) from None
    except (_Refused, tomllib.TOMLDecodeError) as error:
        raise InputError(f"not a TOML file: {error}", where=where) from None
    except ValueError:
        raise InputError(f"not a TOML file: {DIGITS}", where=where) from None


@lru_cache(maxsize=8)  # variations of a scenario read the same machine and library
def _toml(text: str) -> dict[str, Any]:
    """The document, which is nobody's own. Raises ValueError or RecursionError."""
    _refuse_long(text)
    document = tomllib.loads(text)
    refuse_unfit(document)
    return document


def json_of(text: str, where: str, title: str, number: Callable[[str], object] | None = None) -> Any:
    """The same of JSON; `number` parses a number with a fraction or an exponent (default: a float), and
    may raise ValueError. NaN and Infinity are no numbers of JSON."""
    try:
        if fault := escape_in(text):
            raise _Refused(fault)
        return json.loads(text, object_pairs_hook=unique_pairs, parse_float=number, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno} column {error.colno}: not JSON: {error.msg}", where=where) from None
    except RecursionError:
        raise InputError(f"not a {title}: {DEEP}", where=where) from None
    except _Refused as error:
        raise InputError(f"not a {title}: {error}", where=where) from None
    except ValueError:
        raise InputError(f"not a {title}: {DIGITS}", where=where) from None


def no_fraction(text: str) -> Never:
    """For `json_of`: of a file that holds whole numbers only."""
    got = text if len(text) <= 60 else text[:57] + "..."
    raise _Refused(f"got {got}, allowed: whole numbers alone (a trace has others)")


def unique_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs, for json's `object_pairs_hook`. Raises ValueError that names a key which stands
    twice, found in linear time."""
    out = dict(pairs)
    if len(out) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _Refused(f"key {shown(name)} stands twice in one object")
            seen.add(name)
    return out


def refuse_unfit(value: object) -> None:
    """Raise ValueError for a key or text that a terminal would not show unchanged, for too deep a nesting, and for a
    date, which no file here has."""
    waiting = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if fault := TOML_DEPTH.fault(depth):
            raise _Refused(fault)
        if isinstance(each, dict):
            waiting += [(inner, depth + 1) for inner in (*each, *each.values())]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in each]
        elif isinstance(each, str) and control_in(each):
            raise _Refused(f"control character in {each[:40]!r}; allowed: text that can be shown")
        elif isinstance(each, datetime.date | datetime.time):
            raise _Refused(f"got the date or time {each}, allowed: texts, numbers, true and false")


@contextmanager
def reading(path: Path, title: str) -> Iterator[None]:
    """Raise InputError where a file cannot be read meanwhile; `title`, what it should be, is for the message."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read this {title}: {error.strerror or error}", where=str(path)) from None


def text_of(path: Path, title: str, limit: FileLimit, form: str = "") -> str:
    """All of a file; `title`, what it should be, and `form`, of what kind (default: the title), are for the message.
    Raises InputError."""
    try:
        with reading(path, title):
            return limit.text(path)
    except UnicodeDecodeError as error:
        text = f"not a {form or title}: byte {error.start} is not UTF-8 text"
        raise InputError(text, where=str(path)) from None
    except ValueError as error:  # too large
        raise InputError(f"not a {form or title}: {error}", where=str(path)) from None


def _refuse_long(text: str) -> None:
    """Refuse a line that Python's reader would take too long for."""
    for number, line in enumerate(text.splitlines(), 1):
        if fault := LINE.fault(len(line)):
            raise _Refused(f"line {number}: {fault}")
        if len(line) > TOML_DOTS.most and (fault := TOML_DOTS.fault(line.count("."))):
            raise _Refused(f"line {number}: {fault}")


def _no_constant(text: str) -> Never:
    raise _Refused(f"{text} is not a number")


def frozen(document: object) -> Hashable:
    """A document as a value that can be a key: tables as sets of pairs, lists as tuples, and others with their types,
    so that 1, 1.0 and true stay apart."""
    if isinstance(document, Mapping):
        return frozenset((name, frozen(value)) for name, value in document.items())
    if isinstance(document, list | tuple):
        return tuple(map(frozen, document))
    assert isinstance(document, Hashable), f"{type(document).__name__} is nothing that a document has"
    return type(document), document
