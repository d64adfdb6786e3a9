"""Progress of long work: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import typer

if TYPE_CHECKING:
    from rich.progress import Progress

EVERY_S = 10.0  # seconds between two lines


class Report(Protocol):
    """Report progress: one part more is done, or `done` parts of `total`."""

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None: ...


@contextmanager
def progress(stage: str, total: int | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[Report]:
    """Show progress on standard error, and yield the function that reports it."""
    with _bar(clock) as bar:
        task = bar.add_task(stage, total=total)

        def report(stage: str, done: int | None = None, total: int | None = None) -> None:
            advance = 1 if done is None else None
            bar.update(task, description=stage, completed=done, advance=advance, total=total)

        yield report


def _bar(clock: Callable[[], float]) -> Progress:
    """Return a bar with stage, count and elapsed time. If standard error is not a terminal: a line every ten seconds,
    none for shorter work."""
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
