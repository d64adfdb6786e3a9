"""Values as the text of a TOML file, which reads back as the same values."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_key(name: str) -> str:
    """A key, in quotation marks where it needs them."""
    return name if _BARE.fullmatch(name) else _text(name)


def toml_number(value: float) -> str:
    """A number that is not whole, or is meant as one."""
    return repr(float(value))  # the shortest text that reads back as the same number: 1e-05, 0.012


def toml_value(value: Any) -> str:
    """A value on one line: numbers exactly, tables inline. Raises TypeError for what TOML does not have."""
    match value:
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return toml_number(value)
        case str():
            return _text(value)
        case Mapping():
            inside = ", ".join(f"{toml_key(name)} = {toml_value(part)}" for name, part in value.items())
            return f"{{ {inside} }}" if inside else "{}"
        case Sequence():
            return f"[{', '.join(map(toml_value, value))}]"
    raise TypeError(f"TOML has no {type(value).__name__}")


def _text(value: str) -> str:
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
