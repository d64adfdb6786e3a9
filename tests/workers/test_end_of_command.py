"""However a command ends, none of its workers is left, and Dask says nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.invoke import ROOT

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
LIMIT_S = 60.0
COMMAND = """
from simfrontier.ending import run_to_end
from simfrontier.workers import Local, Workers
from tests.workers import work

def command():
    with Workers(Local(jobs=2)) as workers:
        print(*(workers.submit(work.process, worker=number).result() for number in (0, 1)), flush=True)
        list(workers.in_order(work.slow, [(SECONDS,)] * 4))

if __name__ == "__main__":
    run_to_end("sim", command)
"""


def started(folder: Path, seconds: float) -> tuple[subprocess.Popen[str], list[int]]:
    """The command, and its two workers, which are at work."""
    path = folder / "command.py"
    path.write_text(COMMAND.replace("SECONDS", str(seconds)), encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'real'}"}
    process = subprocess.Popen(
        [sys.executable, str(path)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        start_new_session=True,
    )
    assert process.stdout is not None
    return process, [int(word) for word in process.stdout.readline().split()]


def is_gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def until(true: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not true():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def test_a_command_that_ends_well_prints_nothing_and_leaves_no_file(tmp_path: Path) -> None:
    process, workers = started(tmp_path, 0.01)
    assert process.communicate(timeout=LIMIT_S) == ("", "") and process.returncode == 0
    until(lambda: all(map(is_gone, workers)), f"left: {workers}")
    assert [path.name for path in tmp_path.iterdir()] == ["command.py"]


def test_ctrl_c_ends_all_with_one_line(tmp_path: Path) -> None:
    process, workers = started(tmp_path, 100.0)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=LIMIT_S) == ("", "sim: stopped\n") and process.returncode == 130
    until(lambda: all(map(is_gone, workers)), f"left: {workers}")


def test_a_command_that_is_killed_takes_a_stopped_worker_along(tmp_path: Path) -> None:
    process, workers = started(tmp_path, 100.0)
    os.kill(workers[0], signal.SIGSTOP)
    process.kill()
    until(lambda: all(map(is_gone, workers)), f"left: {workers}")
    process.communicate()
