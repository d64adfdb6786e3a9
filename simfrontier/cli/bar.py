"""The progress of long work: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

EVERY_S = 10.0  # seconds between two lines


def bar_of_work(clock: Callable[[], float] = time.monotonic) -> Progress:
    """A progress bar with the current step, the count and the elapsed time, on stderr. Where that is no terminal: a
    line every ten seconds, none for shorter work."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    class ProgressLines(Progress):
        said = clock()

        def update(self, task_id: Any, *settings: Any, **changes: Any) -> None:
            super().update(task_id, *settings, **changes)
            task, now = self.tasks[task_id], clock()
            if now - self.said >= EVERY_S:
                self.said = now
                of = f" of {task.total:,.0f}" if task.total else ""
                typer.echo(f"{task.description}: {task.completed:,.0f}{of} done, {task.elapsed or 0:.0f} s", err=True)

    console = Console(stderr=True)
    if not console.is_terminal:
        return ProgressLines(disable=True, get_time=clock)
    return Progress(
        TextColumn("{task.description:<40}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
