"""Progress of long work: a bar in a terminal and in a notebook, lines where standard error is a file."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from html import escape
from typing import Any, Final, Protocol

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from simfrontier.base.errors import InputError, wrong

EVERY_S: Final = 10.0  # between two lines
FIRST_S: Final = 1.0  # before a notebook shows a bar
AGAIN_S: Final = 0.2  # between two states of it


class Report(Protocol):
    """Function that reports progress: without arguments one more part is done, otherwise `done` of `total` parts."""

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None: ...


@contextmanager
def progress(stage: str, total: int | None = None, clock: Callable[[], float] = time.monotonic) -> Iterator[Report]:
    """Show progress on standard error, or below the cell of a notebook, and yield the function that reports it."""
    if is_notebook():
        below = _NotebookBar(total, clock)
        try:
            yield below
        finally:
            below.end()
        return
    with _bar(clock) as bar:
        task = bar.add_task(stage, total=total)

        def report(stage: str, done: int | None = None, total: int | None = None) -> None:
            advance = 1 if done is None else None
            bar.update(task, description=stage, completed=done, advance=advance, total=total)

        yield report


def _bar(clock: Callable[[], float]) -> Progress:
    """Return a progress bar with stage, count and elapsed time. If standard error is not a terminal, print a line every
    ten seconds instead, and nothing for shorter work."""

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


def asked(
    wanted: Callable[..., None] | bool | None, stage: str, total: int | None = None
) -> AbstractContextManager[Any]:
    """Return the progress that an argument of the Python API asks for, as `progress` does: None shows it in notebooks
    only, a function is called instead. Raises InputError for any other value."""
    if callable(wanted):
        return nullcontext(wanted)
    if not isinstance(wanted, bool | None):
        raise InputError(wrong(wanted, "True, False, None or a function"), where="progress")
    show = is_notebook() if wanted is None else wanted
    return progress(stage, total) if show else nullcontext(lambda *_, **__: None)


def is_notebook() -> bool:
    """Return whether this process is the kernel of a notebook."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None


class _NotebookBar:
    """Bar below the cell that is running, for work of more than a second; it disappears at the end."""

    def __init__(self, total: int | None, clock: Callable[[], float]) -> None:
        self._done, self._total = 0, total
        self._clock, self._began, self._next = clock, clock(), clock() + FIRST_S
        self._shown: Any = None

    def __call__(self, stage: str, done: int | None = None, total: int | None = None) -> None:
        self._done = self._done + 1 if done is None else done
        self._total = total or self._total
        now = self._clock()
        if now >= self._next:
            self._next = now + AGAIN_S
            self._show(self._html(stage, now - self._began))

    def end(self) -> None:
        if self._shown is not None:
            self._show("")

    def _html(self, stage: str, seconds: float) -> str:
        of = f' max="{self._total}" value="{self._done}"' if self._total else ""
        count = f"{self._done:,} of {self._total:,}" if self._total else f"{self._done:,}"
        return f"<progress{of}></progress> {escape(stage)}: {count}, {seconds:.0f} s"

    def _show(self, html: str) -> None:
        from IPython.display import display

        content = {"text/html": html, "text/plain": ""}
        if self._shown is None:
            self._shown = display(content, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(content, raw=True)
