"""Workers that others started, at a scheduler that runs."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.workers import RunningScheduler, SchedulerLostError, Workers
from tests.invoke import ROOT
from tests.workers import work


def free_port() -> int:
    with socket.socket() as each:
        each.bind(("127.0.0.1", 0))
        return int(each.getsockname()[1])


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    address = f"tcp://127.0.0.1:{free_port()}"
    dask = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--no-dashboard", "--dashboard-address", ":0"]
    place = ["--host", "127.0.0.1", "--port", address.rsplit(":", 1)[1]]
    process = subprocess.Popen([*dask, *place], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", int(place[3]))).close()
            break
        except OSError:
            time.sleep(0.1)
    try:
        yield address, process
    finally:
        process.kill()
        process.wait()


def test_no_scheduler_is_one_line() -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    with (
        pytest.raises(InputError, match=rf"^--scheduler: no scheduler answers at {address}"),
        Workers(RunningScheduler(address=address)),
    ):
        pass


def test_its_workers_do_the_calls_and_its_end_is_one_line(
    scheduler: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    address, process = scheduler
    with pytest.raises(InputError, match="has no workers"), Workers(RunningScheduler(address=address)):
        pass
    dask = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
    options = ["--local-directory", str(tmp_path), "--no-nanny", "--memory-limit", "0"]
    worker = subprocess.Popen([*dask, *options], cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                with Workers(RunningScheduler(address=address), work.begin, ("ready",)) as workers:
                    assert workers.num_workers == 1
                    assert list(workers.as_done(work.square, [(3,)])) == [(0, 9)]
                    assert workers.submit(work.begun).result()[1] == ["ready"]
                    lost = workers.submit(work.slow, 60.0)
                    process.kill()
                    with pytest.raises(SchedulerLostError, match=f"the scheduler at {address} is gone"):
                        lost.result(timeout=30)
                break
            except InputError:
                assert time.monotonic() < deadline
                time.sleep(0.5)
    finally:
        worker.kill()
        worker.wait()
