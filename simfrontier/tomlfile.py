"""Reading a TOML file that a user gave: whatever is wrong with it is one line."""

import tomllib
from pathlib import Path
from typing import Any, Protocol, TypeVar

from simfrontier.errors import InputError
from simfrontier.limits import LINE, TOML_DEPTH, TOML_DOTS, TOML_FILE
from simfrontier.plaintext import control_in

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Told(Protocol[T_co]):
    """A number that a file tells."""

    @property
    def value(self) -> T_co: ...


def told(number: Told[T] | None, default: T) -> T:
    """A number that a file may leave out."""
    return default if number is None else number.value


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The document in a file; `what` it should be is for the message. Raises InputError."""
    try:
        text = TOML_FILE.text(path)
        _refuse_long(text)
        document = tomllib.loads(text)
        refuse_unfit(document)
        return document
    except OSError as error:
        raise InputError(f"{path}: cannot read this {what}: {error.strerror}") from None
    except RecursionError:
        raise InputError(f"{path}: not a TOML file: nested too deeply") from None
    except ValueError as error:  # no TOML, no UTF-8, a number of thousands of digits, or beyond a limit
        raise InputError(f"{path}: not a TOML file: {error}") from None


def refuse_unfit(value: object) -> None:
    """Raise ValueError for a key or text that a terminal would not show as it stands, and for too deep a nesting."""
    waiting = [(value, 0)]
    while waiting:
        each, depth = waiting.pop()
        if fault := TOML_DEPTH.fault(depth):
            raise ValueError(fault)
        if isinstance(each, dict):
            waiting += [(inner, depth + 1) for inner in (*each, *each.values())]
        elif isinstance(each, list):
            waiting += [(inner, depth + 1) for inner in each]
        elif isinstance(each, str) and control_in(each):
            raise ValueError(f"control character in {each[:40]!r}; allowed: text that can be shown")


def _refuse_long(text: str) -> None:
    """Raise ValueError for a line that Python's reader would take too long for."""
    for number, line in enumerate(text.splitlines(), 1):
        if fault := LINE.fault(len(line)):
            raise ValueError(f"line {number}: {fault}")
        if len(line) > TOML_DOTS.most and (fault := TOML_DOTS.fault(line.count("."))):
            raise ValueError(f"line {number}: {fault}")
