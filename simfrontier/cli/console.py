"""The console of commands that print tables and sentences: what a user named is shown as it is."""

from __future__ import annotations

from rich.console import Console


def console() -> Console:
    """Standard output, where brackets and colons in a text mean themselves and numbers get no colours."""
    return Console(markup=False, emoji=False, highlight=False)


def plain(text: str) -> str:
    """With blanks as a terminal and a search know them."""
    return text.replace("\u00a0", " ")
