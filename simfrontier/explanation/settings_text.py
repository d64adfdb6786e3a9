"""Settings as texts: what a user gives to `--set` for a value that a program has."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from simfrontier.collectives import text

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9:_-]*")


def setting_text(key: str, value: Any) -> str:
    """`key=value`, which `scenario.parse_setting` reads back as the same key and value."""
    return f"{key}={value if isinstance(value, str) and _is_a_word(value) else toml_text(value)}"


def toml_text(value: Any) -> str:
    """A value as TOML on one line: numbers exactly, tables inline."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case str():
            return text(value)
        case Mapping():
            inside = ", ".join(f"{_key(name)} = {toml_text(part)}" for name, part in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case Sequence():
            return f"[{', '.join(map(toml_text, value))}]"
    raise TypeError(f"{value!r} is no value of a scenario")


def _is_a_word(value: str) -> bool:
    """Whether a text without quotation marks is read as itself: no number, date, table or truth value."""
    return value not in ("true", "false", "inf", "nan") and _WORD.fullmatch(value) is not None


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else text(name)
