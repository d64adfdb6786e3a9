"""A progress bar of rank 0, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(rank: int, total: int, title: str) -> Iterator[Callable[[], None]]:
    """Gives a function to call after each of `total` steps; the other ranks' does nothing."""
    if rank != 0:
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=total)
        yield lambda: bar.advance(task)
