"""Values as the text of a TOML file, which reads back as the same values."""

from __future__ import annotations

import json
from collections.abc import Iterable


def number(value: float) -> str:
    """A number that is not whole, or is meant as one."""
    return repr(float(value))  # the shortest text that reads back as the same number: 1e-05, 0.012


def text(value: str) -> str:
    """A basic string."""
    # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def texts(values: Iterable[str]) -> str:
    """An array of strings."""
    return f"[{', '.join(map(text, values))}]"
