"""What commands that print tables, sentences and JSON have in common: what a user named is shown as it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


def console() -> Console:
    """Standard output, where brackets and colons in a text mean themselves and numbers get no colours."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False)


def finite(value: float) -> float | None:
    """A number as JSON has it: None for nan and infinity."""
    return value if math.isfinite(value) else None


def plain(text: str) -> str:
    """With blanks as a terminal and a search know them."""
    return text.replace("\u00a0", " ")
