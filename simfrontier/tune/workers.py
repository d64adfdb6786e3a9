"""Manners of the processes that do a search's work: they leave Ctrl-C to the one that started them, and end with it."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import wait
from multiprocessing.process import BaseProcess


@contextmanager
def started() -> Iterator[list[BaseProcess]]:
    """Processes that are started meanwhile do not hear Ctrl-C; at the end they are in the list."""
    before = set(multiprocessing.active_children())
    mine: list[BaseProcess] = []
    is_main = threading.current_thread() is threading.main_thread()
    heard = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None
    try:
        yield mine
    finally:
        if is_main:
            signal.signal(signal.SIGINT, signal.SIG_DFL if heard is None else heard)
        mine += [child for child in multiprocessing.active_children() if child not in before]


def end_with_parent() -> None:
    """Let this process end when the one that started it is gone, however that ended; otherwise it would wait for work
    for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent.sentinel,), daemon=True).start()


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
