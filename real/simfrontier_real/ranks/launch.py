"""Launcher of all ranks on this machine; if one rank fails, or this process receives a stop signal, all ranks end with
a one-line message."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any, Protocol

from simfrontier.base.errors import InputError
from simfrontier.base.optional import require
from simfrontier_real.ranks.world import step_key

POLL_S = 0.05
GRACE_S = 3.0  # for ranks to end after SIGTERM, before they are killed
# Ranks share the cores. And glibc's threshold moves with what was freed before, so that the same message costs 75 or
# 130 ms depending on the schedule that ran before it; a fixed one makes large buffers cost the same pages every time.
SHARED = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": str(2 << 20)}


class RankProcess(Protocol):
    """Interface of the process of a rank."""

    def poll(self) -> int | None:
        """Return the exit code of the process (minus the signal number if a signal killed it), None while it is
        running."""

    def send_signal(self, number: int) -> None:
        """Send a signal to the process, if it is still running."""


class StoppedError(Exception):
    """Error: this process has received a stop signal."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def watch(processes: Sequence[RankProcess], where: Callable[[int], str] = lambda _: "") -> int:
    """Wait for all ranks, and end the others if one fails. Return 0, or the exit code of the first failed rank, which
    is reported in one line; `where` describes how far a rank had progressed, if known."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [rank for rank, code in enumerate(codes) if code]
        if failed:
            # of those that ended since the last look, one that was killed did not end because of another
            rank = min(failed, key=lambda each: ((codes[each] or 0) > 0, each))
            end(processes)
            return _report_end(rank, codes[rank] or 0, len(processes), where(rank))
        if all(code == 0 for code in codes):
            return 0
        time.sleep(POLL_S)


def end(processes: Sequence[RankProcess]) -> None:
    """Send SIGTERM to all running processes, and SIGKILL to those that do not exit."""
    for number, limit_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        running = [process for process in processes if process.poll() is None]
        for process in running:
            process.send_signal(number)
            process.send_signal(signal.SIGCONT)  # one that is stopped does not hear the other
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and any(process.poll() is None for process in running):
            time.sleep(POLL_S)


@contextmanager
def signals() -> Iterator[None]:
    """Raise StoppedError on the first SIGINT, SIGTERM or SIGHUP during the block (main thread only)."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    came: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        came.append(number)
        if len(came) == 1:
            raise StoppedError(number)

    before = {number: signal.signal(number, stop) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_stopped(number: int, size: int) -> int:
    """Report that a signal has stopped the run, and return the exit code."""
    sys.stderr.write(f"simfrontier-real: stopped by signal {number}; all {size} ranks are stopped\n")
    return 128 + number


def _report_end(rank: int, code: int, size: int, where: str) -> int:
    ending = f"was killed by signal {-code}{where and f' {where}'}" if code < 0 else f"ended with {code}"
    sys.stderr.write(f"simfrontier-real: rank {rank} {ending}; all {size} ranks are stopped\n")
    return code if code > 0 else 1


ADDRESS = "127.0.0.1"


def is_launched() -> bool:
    """Return whether `launch` has started this process as a rank. Raises InputError if torchrun has started it."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise InputError("torchrun has started this process; allowed: one of the two", where="--ranks")
    return "RANK" in os.environ


def launch(num_ranks: int) -> int:
    """Run this command in `num_ranks` processes; return the exit code of the first failed process, or 0.

    If a process exits with an error or is killed, the others are ended as well; on Linux all processes end together
    with this one. Raises InputError if torch is not installed.
    """
    require("real", "--ranks")
    from torch._C._distributed_c10d import TCPStore

    store = TCPStore(ADDRESS, 0, is_master=True, wait_for_workers=False)  # any rank may end, and it stays
    place = {
        **SHARED,
        **os.environ,
        "WORLD_SIZE": str(num_ranks),
        "MASTER_ADDR": ADDRESS,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # torch's word for a store that the launcher has; the ranks end with it
    }
    ranks: list[subprocess.Popen[bytes]] = []
    with signals():
        try:
            for rank in range(num_ranks):
                ranks.append(_started({**place, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
            return watch(ranks, lambda rank: _step_of(store, rank))
        except StoppedError as stopped:
            end(ranks)
            return print_stopped(stopped.number, num_ranks)
        finally:
            for process in ranks:
                with suppress(OSError):
                    process.kill()


def _step_of(store: Any, rank: int) -> str:
    """Return a description of the training step that a rank was in; empty if it was not training."""
    key = step_key(rank)
    with suppress(RuntimeError):
        if store.check([key]):
            return f"in step {store.get(key).decode()}"
    return ""


def _started(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """Start a rank in a session of its own, so that Ctrl-C reaches only the launcher, which then ends the ranks in
    order."""
    return subprocess.Popen(
        [sys.executable, "-m", "simfrontier_real", *sys.argv[1:]],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
