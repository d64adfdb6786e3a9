"""The bar of long work on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def bar_of_work() -> Progress:
    """A bar with what is done now, how much of how much, and for how long; on stderr, and on terminals only: in a log
    it would leave an empty line before the one that says what is wrong."""
    console = Console(stderr=True)
    return Progress(
        TextColumn("{task.description:<40}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
        disable=not console.is_terminal,
    )
