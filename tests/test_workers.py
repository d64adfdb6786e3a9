"""Worker processes of `--jobs`: whoever ends the command, none of them is left; one that is killed is one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.invoke import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

LIMIT_S = 120.0  # machines are noisy
MAIN = str(ROOT / "scenarios" / "frontier-20b.toml")
COMMANDS = {
    "run": ["run", MAIN, "--no-sensitivity", "--no-page"],
    "explain": ["explain", MAIN, "--plan", "zero3", "--devices", "384"],
    "tune": ["tune", str(ROOT / "scenarios" / "frontier-1t-3d.toml")],
}


def state(pid: int) -> str:
    """The letter that /proc has for a process; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def children(pid: int) -> list[int]:
    out: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            out += [int(text) for text in (task / "children").read_text().split()]
    return out


def is_worker(pid: int) -> bool:
    with suppress(OSError):
        return b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


def until(true: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


@contextmanager
def working(command: str, out: Path) -> Iterator[tuple[subprocess.Popen[str], list[int]]]:
    """The command with two workers that are at work, and all that it has started."""
    process = subprocess.Popen(
        [sys.executable, "-m", "simfrontier", *COMMANDS[command], "--jobs", "2", "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a worker's second thread is then the one that we gave it
    )
    mine: list[int] = []
    try:

        def two_workers() -> bool:
            assert process.poll() is None, process.communicate()
            return sum(map(is_worker, children(process.pid))) == 2

        until(two_workers, "no workers appear")
        mine = children(process.pid)
        yield process, mine
    finally:
        for pid in (process.pid, *mine):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


def are_gone(pids: list[int]) -> bool:
    return all(state(pid) in ("", "Z", "X") for pid in pids)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_workers_end_with_the_command(command: str, number: signal.Signals, tmp_path: Path) -> None:
    with working(command, tmp_path / "out") as (process, mine):
        assert len(mine) == 3  # with the one that Python has for what processes share
        process.send_signal(number)
        until(lambda: are_gone(mine), f"left: {mine}")
        assert process.wait(LIMIT_S) == -number


def test_a_stopped_worker_ends_with_the_command(tmp_path: Path) -> None:
    with working("run", tmp_path / "out") as (process, mine):
        worker = next(filter(is_worker, mine))
        until(lambda: len(list(Path(f"/proc/{worker}/task").iterdir())) > 1, "is not ready for work")
        os.kill(worker, signal.SIGSTOP)
        until(lambda: state(worker) == "T", "is not stopped")
        process.kill()
        until(lambda: are_gone(mine), f"left: {mine}")


def test_a_killed_worker_is_one_line(tmp_path: Path) -> None:
    with working("run", tmp_path / "out") as (process, mine):
        os.kill(next(filter(is_worker, mine)), signal.SIGKILL)
        message = process.communicate(timeout=LIMIT_S)[1]
        assert process.returncode == 1
        assert (
            message.startswith("simfrontier: a worker process was ended from outside") and message.count("\n") == 1
        ), message
        until(lambda: are_gone(mine), f"left: {mine}")
        assert not (tmp_path / "out").exists()
