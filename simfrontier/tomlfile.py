"""Reading a TOML file that a user gave: whatever is wrong with it is one line."""

import tomllib
from pathlib import Path
from typing import Any, Protocol, TypeVar

from simfrontier.errors import InputError

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
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot read this {what}: {error.strerror}") from None
    except RecursionError:
        raise InputError(f"{path}: not a TOML file: nested too deeply") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number of thousands of digits
        raise InputError(f"{path}: not a TOML file: {error}") from None
