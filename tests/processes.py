"""Processes of this machine: started so that they hear Ctrl-C, and as /proc shows them: the workers that a command has
started, and whether they are gone."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


@contextmanager
def hearing_ctrl_c() -> Iterator[None]:
    """This process, and those that it starts meanwhile, hear SIGINT, as from a terminal. A shell script that starts
    tests in the background leaves SIGINT ignored, and so would all that they start."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def state(pid: int) -> str:
    """The letter that /proc has for a process; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def are_gone(pids: Iterable[int]) -> bool:
    """Whether all have ended; one that has stays listed until its parent has heard of it."""
    return all(state(pid) in ("", "Z", "X") for pid in pids)


def children(pid: int) -> list[int]:
    """All processes that a process has started, whichever of its threads did."""
    out: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            out += [int(text) for text in (task / "children").read_text().split()]
    return out


def workers_of(pid: int) -> list[int]:
    """Those that work for it."""
    return [child for child in children(pid) if _is_worker(child)]


def _is_worker(pid: int) -> bool:
    with suppress(OSError):
        return b"simfrontier.base.workers" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False
