"""Workers of this machine: what they give, what is done when one is lost, and what is left of them."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tracemalloc
import weakref
from collections.abc import Iterator
from concurrent.futures import CancelledError
from itertools import islice, pairwise
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.workers import Local, WorkerLostError, Workers, garbage, local_cluster
from simfrontier.workers.local_cluster import SETTINGS
from tests.processes import workers_of
from tests.workers import work

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks at processes in /proc")


@pytest.fixture(scope="module")
def two() -> Iterator[Workers]:
    with Workers(Local(jobs=2), work.begin, ("ready",)) as workers:
        yield workers


def test_one_job_is_done_here_without_dask() -> None:
    program = (
        "import sys, os, operator\n"
        "from simfrontier.workers import Local, Workers\n"
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
    done = list(two.as_done(work.slow, [(2.0,), (0.01,), (0.02,)]))
    assert [number for number, _ in done] == [1, 2, 0]
    assert dict(done) == {0: 2.0, 1: 0.01, 2: 0.02}


def test_calls_are_taken_a_few_ahead(two: Workers) -> None:
    taken: list[int] = []

    def calls() -> Iterator[tuple[int]]:
        for number in range(10**6):
            taken.append(number)
            yield (number,)

    assert list(islice(two.in_order(work.square, calls()), 4)) == [0, 1, 4, 9]
    assert len(taken) < 12  # three for each of two workers, and those that were given


def test_nothing_is_kept_of_calls_that_are_done(two: Workers) -> None:
    """A server, or a sweep, hands out calls for days: neither their arguments stay, nor anything for each call."""

    def held_after(calls: int) -> tuple[int, int]:
        for _ in range(calls):
            assert two.submit(len, bytes(100_000)).result() == 100_000
        gc.collect()
        return tracemalloc.get_traced_memory()[0], len(gc.get_objects())

    tracemalloc.start()
    try:
        held = [held_after(150) for _ in range(5)]
    finally:
        tracemalloc.stop()
    grown = [(after[0] - before[0], after[1] - before[1]) for before, after in pairwise(held)]
    assert min(num_bytes for num_bytes, _ in grown) < 7_500_000  # half of what the arguments have
    assert min(objects for _, objects in grown) < 150  # Dask itself keeps some hundreds for a while


@pytest.mark.parametrize("jobs", [1, 2])
def test_garbage_is_collected_between_calls_where_python_leaves_it(jobs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    class Cycle:
        def __init__(self) -> None:
            self.me = self

    monkeypatch.setattr(garbage, "SHORTEST_REST_S", 0.0)
    gc.disable()
    try:
        with Workers(Local(jobs=jobs)) as workers:
            left = weakref.ref(Cycle())
            assert left() is not None
            time.sleep(0.01)
            workers.submit(work.square, 2).result()
            assert left() is None
    finally:
        gc.enable()


def test_a_worker_can_be_chosen_and_every_worker_is_prepared(two: Workers) -> None:
    first, second = (two.submit(work.begun, worker=number).result() for number in (0, 1))
    assert first[0] != second[0] and first[1] == second[1] == ["ready"]
    assert two.submit(work.process, worker=0).result() == first[0]


def test_an_error_of_a_call_is_raised_as_itself(two: Workers) -> None:
    with pytest.raises(InputError) as caught:
        list(two.in_order(work.refused, [("no",)]))
    error = caught.value
    assert (error.what, error.where, error.key, error.when) == ("no", "FILE", ("a", 1), "at 8")


def test_a_call_that_waits_can_be_cancelled(two: Workers) -> None:
    busy = [two.submit(work.slow, 0.5) for _ in range(2)]
    waiting = two.submit(work.slow, 60.0)
    assert waiting.cancel()
    with pytest.raises(CancelledError):
        waiting.result()
    assert [each.result() for each in busy] == [0.5, 0.5]


def test_a_call_whose_worker_is_killed_is_done_again_by_a_prepared_one(tmp_path: Path, two: Workers) -> None:
    lost = two.submit(work.process, worker=0).result()
    assert two.submit(work.end_once, str(tmp_path), worker=0).result() != lost
    assert two.submit(work.begun, worker=0).result()[1] == ["ready"]
    assert two.submit(work.process, worker=0).result() != lost


def test_a_call_that_ends_every_worker_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "distributed.scheduler.allowed-failures", 2)  # fewer, for the time of it
    with Workers(Local(jobs=1, apart=True)) as workers:
        with pytest.raises(WorkerLostError, match=r"ended from outside.*allowed: fewer --jobs") as caught:
            workers.submit(work.end).result()
        assert "\n" not in str(caught.value)
        assert workers.submit(work.square, 3).result() == 9


def test_ten_losses_of_one_call_are_no_error(tmp_path: Path, two: Workers) -> None:
    assert two.submit(work.end_often, str(tmp_path), 10).result() == 10


def test_a_worker_that_is_not_of_this_machine_is_refused(two: Workers) -> None:
    with pytest.raises(ValueError, match="worker 2 of Local"):
        two.submit(work.square, 3, worker=2)
    with pytest.raises(ValueError, match="worker -1 of Local"):
        two.submit(work.square, 3, worker=-1)


def until_killed(known: set[int], number: int) -> None:
    """Kill so many workers of this process that are not known yet, each as soon as there is one, within 30 s."""
    deadline = time.monotonic() + 30
    while number and time.monotonic() < deadline:
        for pid in set(workers_of(os.getpid())) - known:
            known.add(pid)
            os.kill(pid, signal.SIGKILL)
            number -= 1
        time.sleep(0.01)


def test_workers_that_are_killed_as_they_start_are_started_again() -> None:
    thread = threading.Thread(target=until_killed, args=(set(workers_of(os.getpid())), 2), daemon=True)
    thread.start()
    with Workers(Local(jobs=1, apart=True), work.begin, ("ready",)) as workers:
        thread.join(timeout=60)
        assert not thread.is_alive() and workers.submit(work.begun).result()[1] == ["ready"]


def test_workers_that_never_start_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_cluster, "MOST_STARTS", 2)
    thread = threading.Thread(target=until_killed, args=(set(workers_of(os.getpid())), 2), daemon=True)
    thread.start()
    with (
        pytest.raises(
            WorkerLostError, match=r"^a worker process ended while it started, 2 times; allowed: fewer --jobs"
        ),
        Workers(Local(jobs=1, apart=True)),
    ):
        pass
    thread.join(timeout=60)


@pytest.mark.long
def test_a_worker_that_is_away_for_long_is_not_forgotten() -> None:
    """Dask ends the nanny of a worker that is not back within 15 s: its calls would wait for ever."""
    before = set(workers_of(os.getpid()))
    with Workers(Local(jobs=1, apart=True)) as workers:
        deadline, known = time.monotonic() + 18, set(before)
        while time.monotonic() < deadline:
            until_killed(known, 1)
        assert workers.submit(work.square, 3, worker=0).result(timeout=60) == 9


def test_a_call_that_runs_is_left_at_the_end_and_nothing_is_left_of_it() -> None:
    before = set(os.listdir(tempfile.gettempdir()))
    threads = set(threading.enumerate())
    with Workers(Local(jobs=1, apart=True)) as workers:
        pid = workers.submit(work.process).result()
        running = workers.submit(work.slow, 100.0)
        time.sleep(0.2)
        began = time.monotonic()
    assert time.monotonic() - began < 20
    with pytest.raises(CancelledError):
        running.result(timeout=5)
    assert not Path(f"/proc/{pid}").exists()
    left = {name for name in set(os.listdir(tempfile.gettempdir())) - before if "dask" in name}
    assert left == set()
    assert not [each for each in set(threading.enumerate()) - threads if each.name == "IO loop"]
