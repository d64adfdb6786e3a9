"""The text of a TOML or JSON file as a document of plain values. Whatever is wrong is one InputError that names the
file, and the line where it is known."""

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

from simfrontier.base.errors import InputError
from simfrontier.base.limits import DEPTH, FILE

DEEP: Final = "nested too deeply"


def read_toml(path: Path, title: str) -> dict[str, Any]:
    """The document in a file; `title`, what it should be, is for the message. Raises InputError."""
    return toml_of(text_of(path, title, "TOML file"), str(path))


def read_json(path: Path, title: str) -> Any:
    """The value in a file; `title`, what it should be, is for the message. Raises InputError."""
    return json_of(text_of(path, title), str(path), title)


def toml_of(text: str, where: str) -> dict[str, Any]:
    """The document that a text of the file `where` describes. Raises InputError."""
    try:
        return copy.deepcopy(_toml(text))
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a TOML file: {_reason(error)}", where=where) from None


@lru_cache(maxsize=8)  # variations of a scenario read the same machine and library
def _toml(text: str) -> dict[str, Any]:
    """The document, which is nobody's own. Raises ValueError or RecursionError."""
    document = tomllib.loads(text)
    refuse_unfit(document)
    return document


def json_of(text: str, where: str, title: str, number: Callable[[str], object] | None = None) -> Any:
    """The same of JSON; `number` parses a number with a fraction or an exponent (default: a float), and may raise
    ValueError. NaN and Infinity are no numbers of JSON."""
    try:
        return json.loads(text, parse_float=number, parse_constant=_no_constant)
    except json.JSONDecodeError as error:
        raise InputError(f"line {error.lineno} column {error.colno}: not JSON: {error.msg}", where=where) from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"not a {title}: {_reason(error)}", where=where) from None


def _reason(error: Exception) -> str:
    return DEEP if isinstance(error, RecursionError) else str(error)


def no_fraction(text: str) -> Never:
    """For `json_of`: of a file that holds whole numbers only."""
    raise ValueError(f"got {text[:60]}, allowed: whole numbers alone (a trace has others)")


def refuse_unfit(value: object) -> None:
    """Raise ValueError for too deep a nesting, and for a date, which no file here has."""
    waiting = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if depth > DEPTH:
            raise ValueError(f"{DEEP}; allowed: {DEPTH} levels")
        if isinstance(each, dict):
            waiting += [(inner, depth + 1) for inner in each.values()]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in each]
        elif isinstance(each, datetime.date | datetime.time):
            raise ValueError(f"got the date or time {each}, allowed: texts, numbers, true and false")


@contextmanager
def reading(path: Path, title: str) -> Iterator[None]:
    """Raise InputError where a file cannot be read meanwhile; `title`, what it should be, is for the message."""
    try:
        yield
    except OSError as error:
        raise InputError(f"cannot read this {title}: {error.strerror or error}", where=str(path)) from None


def text_of(path: Path, title: str, form: str = "") -> str:
    """All of a file; `title`, what it should be, and `form`, of what kind (default: the title), are for the message.
    Raises InputError."""
    try:
        with reading(path, title):
            return FILE.text(path)
    except UnicodeDecodeError as error:
        text = f"not a {form or title}: byte {error.start} is not UTF-8 text"
        raise InputError(text, where=str(path)) from None
    except ValueError as error:  # too large
        raise InputError(f"not a {form or title}: {error}", where=str(path)) from None


def _no_constant(text: str) -> Never:
    raise ValueError(f"{text} is not a number")


def frozen(document: object) -> Hashable:
    """A document as a value that can be a key: tables as sets of pairs, lists as tuples, and others with their types,
    so that 1, 1.0 and true stay apart."""
    if isinstance(document, Mapping):
        return frozenset((name, frozen(value)) for name, value in document.items())
    if isinstance(document, list | tuple):
        return tuple(map(frozen, document))
    assert isinstance(document, Hashable), f"{type(document).__name__} is nothing that a document has"
    return type(document), document
