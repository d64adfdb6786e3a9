"""Workers that others started, at a scheduler that runs."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from simfrontier.base.errors import InputError
from simfrontier.base.workers import LostError, RunningScheduler, Workers, cluster as running
from tests.base.workers import work
from tests.base.workers.dask_processes import free_port, scheduler_at, worker_at


@pytest.fixture
def scheduler() -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    address = f"tcp://127.0.0.1:{free_port()}"
    process = scheduler_at(address)
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


def refuses_other_versions(address: str) -> None:
    with (
        patch.object(running, "__version__", "0.0"),
        pytest.raises(InputError, match=r"has simfrontier .*, this process 0\.0; allowed: the same"),
        Workers(RunningScheduler(address=address)),
    ):
        pass


def test_its_workers_do_the_calls_and_its_end_is_one_line(
    scheduler: tuple[str, subprocess.Popen[bytes]], tmp_path: Path
) -> None:
    address, process = scheduler
    with pytest.raises(InputError, match="has no workers"), Workers(RunningScheduler(address=address)):
        pass
    worker = worker_at(address, tmp_path)
    try:
        deadline = time.monotonic() + 60
        while True:
            try:
                with Workers(RunningScheduler(address=address)) as workers:
                    assert workers.num_workers == 1
                    assert list(workers.as_done(work.square, [(3,)])) == [(0, 9)]
                    refuses_other_versions(address)
                    lost = workers.submit(work.slow, 60.0)
                    process.kill()
                    with pytest.raises(LostError, match="the scheduler of the workers is gone"):
                        workers.result(lost)
                break
            except InputError:
                assert time.monotonic() < deadline
                time.sleep(0.5)
    finally:
        worker.kill()
        worker.wait()
