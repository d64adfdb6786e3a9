"""However a command ends, none of its workers is left, and Dask says nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from simfrontier.workers.local_cluster import ctrl_c_is_left_to_this_thread
from tests.invoke import ROOT
from tests.processes import children, hearing_ctrl_c
from tests.sweep.studies import HOOK, document, write

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

SWEEP = ["sweep", "study.toml", "--out", "out", "--jobs", "2"]
STRUCK = """
import os, signal, sys
from simfrontier.cli import main

class CtrlC:
    left = NUMBER

    def find_spec(self, *_):
        self.left -= 1
        if not self.left:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, CtrlC())
sys.argv = ["simfrontier", *WORDS]
main()
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


@hearing_ctrl_c()
def test_ctrl_c_ends_all_with_one_line(tmp_path: Path) -> None:
    process, workers = started(tmp_path, 100.0)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    assert process.communicate(timeout=LIMIT_S) == ("", "sim: stopped\n") and process.returncode == 130
    until(lambda: all(map(is_gone, workers)), f"left: {workers}")


@hearing_ctrl_c()
@pytest.mark.parametrize("number", [1, 10, 100, 300, 600, 900])
def test_ctrl_c_in_an_import_is_one_line_or_none(number: int, tmp_path: Path) -> None:
    """The command hears of it as it imports its first module, its tenth, ... of some thousand."""
    write(tmp_path, document({"key": HOOK, "values": [1e-6]}))
    program = STRUCK.replace("NUMBER", str(number)).replace("WORDS", repr(SWEEP))
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'real'}"}
    ran = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=LIMIT_S
    )
    assert ran.returncode == 130 and ran.stderr in ("", "simfrontier: stopped\n"), ran
    assert not (tmp_path / "out").exists()


@hearing_ctrl_c()
@pytest.mark.parametrize("later_s", [0.0, 0.3, 0.6])
def test_ctrl_c_as_workers_start_is_one_line_or_none_and_leaves_no_worker(later_s: float, tmp_path: Path) -> None:
    write(tmp_path, document({"key": HOOK, "range": {"from": 1e-6, "to": 1e-4, "count": 400}}))
    process = subprocess.Popen(
        [sys.executable, "-m", "simfrontier", *SWEEP],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'real'}"},
        start_new_session=True,
    )
    until(lambda: children(process.pid) != [], "nothing is started")
    time.sleep(later_s)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 130 and out == "" and len(err.splitlines()) <= 1 and "Traceback" not in err, err
    until(lambda: of_session(process.pid) == [], "workers are left")


def of_session(leader: int) -> list[int]:
    """The processes of a session that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = path.read_text().rpartition(")")[2].split()[:4]
            if int(session) == leader and state not in "ZX":
                found.append(int(path.parent.name))
    return found


@hearing_ctrl_c()
def test_ctrl_c_that_another_thread_is_told_of_is_heard_when_workers_have_started() -> None:
    """The kernel tells any thread that takes it, and Python then the main one, at its next step."""
    begun, steps = threading.Event(), []

    def told() -> None:
        begun.wait(LIMIT_S)
        signal.raise_signal(signal.SIGINT)

    from_before = threading.Thread(target=told)
    from_before.start()
    with pytest.raises(KeyboardInterrupt), ctrl_c_is_left_to_this_thread():
        begun.set()
        from_before.join(LIMIT_S)
        steps.append("done")
    assert steps == ["done"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_command_that_is_killed_takes_a_stopped_worker_along(tmp_path: Path) -> None:
    process, workers = started(tmp_path, 100.0)
    os.kill(workers[0], signal.SIGSTOP)
    process.kill()
    until(lambda: all(map(is_gone, workers)), f"left: {workers}")
    process.communicate()
