"""Settings as texts: what a user gives to `--set` for a value that a program has."""

from __future__ import annotations

import re
from typing import Any

from simfrontier.base.io import toml_value

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9:_-]*")


def setting_text(key: str, value: Any) -> str:
    """`key=value`, which `scenario.parse_setting` reads back as the same key and value."""
    return f"{key}={value if isinstance(value, str) and _is_a_word(value) else toml_value(value)}"


def _is_a_word(value: str) -> bool:
    """Whether a text without quotation marks is read as itself: no number, date, table or truth value."""
    return value not in ("true", "false", "inf", "nan") and _WORD.fullmatch(value) is not None
