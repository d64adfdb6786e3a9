"""Worker processes of `--jobs`: whoever ends the command, none of them is left; what one did that is killed is done by
another, and the result is the same."""

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

from tests.invoke import ROOT, TOY
from tests.processes import are_gone, children, state, workers_of

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")

LIMIT_S = 120.0  # machines are noisy
MAIN = str(ROOT / "scenarios" / "frontier-20b.toml")
COMMANDS = {
    "run": ["run", MAIN, "--no-sensitivity", "--no-page"],
    "explain": ["explain", MAIN, "--plan", "zero3", "--devices", "384"],
    "tune": ["tune", str(ROOT / "scenarios" / "frontier-1t-3d.toml")],
}


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

        def has_two() -> bool:
            assert process.poll() is None, process.communicate()
            return len(workers_of(process.pid)) == 2

        until(has_two, "no workers appear")
        mine = children(process.pid)
        yield process, mine
    finally:
        for pid in (process.pid, *mine):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.communicate()


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
        worker = workers_of(process.pid)[0]
        until(lambda: len(list(Path(f"/proc/{worker}/task").iterdir())) > 1, "is not ready for work")
        os.kill(worker, signal.SIGSTOP)
        until(lambda: state(worker) == "T", "is not stopped")
        process.kill()
        until(lambda: are_gone(mine), f"left: {mine}")


RESULTS = {
    "run": (["run", TOY, "--devices", "8,16"], ("results.csv", "findings.json", "manifest.json")),
    "explain": (["explain", TOY, "--plan", "zero3", "--devices", "16"], ()),
    "tune": (["tune", TOY, "--devices", "16", "--pin", "family=zero", "--no-page"], ("results.csv", "best.toml")),
}


@pytest.mark.parametrize("command", RESULTS)
def test_what_a_killed_worker_did_is_done_by_another(command: str, tmp_path: Path) -> None:
    """A second after the workers appear, one is killed, and what is said and written is as if none were."""
    said, (words, files) = {}, RESULTS[command]
    for jobs, out in (("1", tmp_path / "one"), ("2", tmp_path / "two")):
        full = [sys.executable, "-m", "simfrontier", *map(str, words), "--jobs", jobs, "--out", str(out), "--json"]
        with subprocess.Popen(full, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT) as process:
            if jobs == "2":
                until(lambda: len(workers_of(process.pid)) == 2, "no workers appear")
                time.sleep(1.0)
                os.kill(workers_of(process.pid)[0], signal.SIGKILL)
            said[jobs], err = process.communicate(timeout=LIMIT_S)
            assert process.returncode == 0, err
    assert said["1"] == said["2"] != ""
    for name in files:
        assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes(), name
