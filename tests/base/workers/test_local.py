"""Workers of this machine: what they give, what is done when one is lost, and what is left of them."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from itertools import islice
from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.base.workers import Local, LostError, Workers
from tests.base.workers import work
from tests.invoke import ROOT
from tests.processes import are_gone, hearing_ctrl_c

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")
COMMAND = """
from simfrontier.base.command_line import run_to_end
from simfrontier.base.workers import Local, Workers
from tests.base.workers import work

def command():
    with Workers(Local(jobs=2)) as workers:
        print(*(workers.submit(work.process, worker=number).result() for number in (0, 1)), flush=True)
        list(workers.in_order(work.slow, [(100.0,)] * 4))

run_to_end("sim", command)  # without a guard of __main__: workers do not run the script
"""


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with Workers(Local(jobs=2)) as workers:
        yield workers


def test_one_job_is_done_here_without_dask() -> None:
    program = (
        "import sys, os, operator\n"
        "from simfrontier.base.workers import Local, Workers\n"
        "with Workers(Local(jobs=1)) as workers:\n"
        "    assert list(workers.in_order(operator.mul, [(2, 3), (4, 5)])) == [6, 20]\n"
        "    assert list(workers.as_done(operator.mul, [(2, 3)])) == [(0, 6)]\n"
        "    assert workers.submit(os.getpid).result() == os.getpid()\n"
        "assert not {'dask', 'distributed', 'tornado'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


def test_results_are_in_the_order_of_the_calls(two: Workers) -> None:
    assert list(two.in_order(work.square, ((n,) for n in range(20)))) == [n * n for n in range(20)]


def test_results_are_given_as_they_are_done(two: Workers) -> None:
    done = list(two.as_done(work.slow, [(4.0,), (0.01,)]))
    assert done == [(1, 0.01), (0, 4.0)]


def test_calls_are_taken_a_few_ahead(two: Workers) -> None:
    taken: list[int] = []

    def calls() -> Iterator[tuple[int]]:
        for number in range(10**6):
            taken.append(number)
            yield (number,)

    assert list(islice(two.in_order(work.square, calls()), 4)) == [0, 1, 4, 9]
    assert len(taken) < 12  # three for each of two workers, and those that were given


def test_a_worker_can_be_chosen(two: Workers) -> None:
    first, second = (two.submit(work.process, worker=number).result() for number in (0, 1))
    assert first != second and two.submit(work.process, worker=0).result() == first


def test_an_error_of_a_call_is_raised_as_itself(two: Workers) -> None:
    with pytest.raises(InputError) as caught:
        list(two.in_order(work.refused, [("no",)]))
    error = caught.value
    assert (error.what, error.where, error.key, error.when) == ("no", "FILE", ("a", 1), "at 8")


def test_an_unforeseen_error_has_the_traceback_of_the_worker(two: Workers) -> None:
    with pytest.raises(ZeroDivisionError) as caught:
        two.result(two.submit(operator.truediv, 1, 0))
    [note] = caught.value.__notes__
    assert note.startswith("In a worker process:\nTraceback") and "ZeroDivisionError" in note


def test_a_result_that_cannot_be_sent_is_an_error_of_its_call(two: Workers) -> None:
    with pytest.raises(TypeError, match="pickle"):
        two.result(two.submit(threading.Lock))
    assert two.result(two.submit(work.square, 3)) == 9


def test_a_call_that_waits_can_be_cancelled(two: Workers) -> None:
    busy = [two.submit(work.slow, 0.5) for _ in range(2)]
    waiting = two.submit(work.slow, 60.0)
    assert waiting.cancel()
    with pytest.raises(CancelledError):
        waiting.result()
    assert [each.result() for each in busy] == [0.5, 0.5]


def test_a_call_whose_worker_is_killed_is_done_again_by_the_same_number(tmp_path: Path, two: Workers) -> None:
    lost = two.submit(work.process, worker=0).result()
    assert two.submit(work.end_once, str(tmp_path), worker=0).result() != lost


def test_a_call_that_ends_every_worker_is_one_line() -> None:
    with Workers(Local(jobs=1, apart=True)) as workers:
        with pytest.raises(LostError, match=r"ended from outside.*allowed: fewer --jobs") as caught:
            list(workers.in_order(work.end, [()]))
        assert "\n" not in str(caught.value)
        assert workers.result(workers.submit(work.square, 3)) == 9


def test_a_call_that_runs_is_left_at_the_end() -> None:
    with Workers(Local(jobs=1, apart=True)) as workers:
        pid = workers.submit(work.process).result()
        running = workers.submit(work.slow, 100.0)
        time.sleep(0.2)
        began = time.monotonic()
    assert time.monotonic() - began < 20
    with pytest.raises(CancelledError):
        workers.result(running)
    assert are_gone([pid])


@hearing_ctrl_c()
@pytest.mark.parametrize(("sent", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -signal.SIGKILL)])
def test_workers_end_with_the_command(sent: signal.Signals, code: int, tmp_path: Path) -> None:
    """Ctrl-C reaches all processes of a terminal."""
    path = tmp_path / "command.py"
    path.write_text(COMMAND, encoding="utf-8")
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'real'}"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [sys.executable, str(path)], stdout=pipe, stderr=pipe, text=True, env=environment, start_new_session=True
    )
    assert process.stdout is not None
    workers = [int(word) for word in process.stdout.readline().split()]
    if sent == signal.SIGINT:
        os.killpg(process.pid, sent)
    else:
        process.kill()
    _, err = process.communicate(timeout=60)
    assert process.returncode == code and (sent == signal.SIGKILL or err == "sim: stopped\n"), err
    deadline = time.monotonic() + 60
    while not are_gone(workers):
        assert time.monotonic() < deadline
        time.sleep(0.05)
