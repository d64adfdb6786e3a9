"""The bar of long work on a terminal."""

from __future__ import annotations

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def bar_of_work() -> Progress:
    """A progress bar with the current step, the count and the elapsed time; on stderr, and on terminals only: in a log
    it would leave an empty line before the error message."""
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
