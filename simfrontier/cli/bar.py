"""The progress of long work: a bar on a terminal, elsewhere a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import typer
from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress


EVERY_S = 10.0  # seconds between two lines


class ProgressLines:
    """Progress where output is redirected: a line on stderr every ten seconds, none for shorter work."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began = self._said = clock()
        self._description, self._done = "", 0.0
        self._total: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        pass

    def add_task(self, description: str, total: float | None = None) -> Any:
        """The number of a task; there is one."""
        self._description, self._total = description, total
        return 0

    def update(
        self,
        _: object,
        *,
        description: str | None = None,
        advance: float = 0,
        completed: float | None = None,
        total: float | None = None,
    ) -> None:
        """Say how far a task is, if the last line is long enough ago."""
        self._description = description or self._description
        self._total = total or self._total
        self._done = self._done + advance if completed is None else completed
        now = self._clock()
        if now - self._said < EVERY_S:
            return
        self._said = now
        of = f" of {self._total:,.0f}" if self._total else ""
        typer.echo(f"{self._description}: {self._done:,.0f}{of} done, {now - self._began:.0f} s", err=True)

    def stop(self) -> None:
        """Show no more."""


def bar_of_work() -> Progress | ProgressLines:
    """A progress bar with the current step, the count and the elapsed time, on stderr; lines where that is no
    terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return ProgressLines()
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description:<40}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
