"""The bar of long work on a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from rich.console import Console

if TYPE_CHECKING:
    from rich.progress import Progress


class NoBar:
    """What shows nothing: the bar where there is no terminal."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _: object, __: TracebackType | None) -> None:
        pass

    def add_task(self, _: str, **__: Any) -> Any:
        """The number of a task."""
        return 0

    def update(self, _: object, **__: Any) -> None:
        """Say how far a task is."""

    def stop(self) -> None:
        """Show no more."""


def bar_of_work() -> Progress | NoBar:
    """A progress bar with the current step, the count and the elapsed time; on stderr, and on terminals only: in a log
    it would leave an empty line before the error message."""
    console = Console(stderr=True)
    if not console.is_terminal:
        return NoBar()
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    return Progress(
        TextColumn("{task.description:<40}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    )
