"""Workers at a place, started."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from simfrontier.errors import InputError
from simfrontier.workers.dask_client import DaskClient
from simfrontier.workers.place import Local, Place, RunningScheduler, SlurmJobs
from simfrontier.workers.quiet import silenced


def started(
    place: Place,
    begin: Callable[..., None] | None,
    given: tuple[Any, ...],
    opened: ExitStack,
    say: Callable[[str], None],
) -> tuple[DaskClient, int, str]:
    """A client of workers at a place, which end with `opened`; how many calls are worked on at once, and the address of
    Dask's pages."""
    import dask
    import distributed  # noqa: F401 (its loggers are there from here on)

    from simfrontier.workers.local_cluster import SETTINGS, LocalProcesses
    from simfrontier.workers.running import Running
    from simfrontier.workers.slurm import SlurmWorkers

    opened.enter_context(silenced())
    opened.enter_context(dask.config.set(SETTINGS))
    processes: LocalProcesses | Running | SlurmWorkers
    match place:
        case Local(jobs=number, dashboard=dashboard):
            if dashboard:
                _refuse_without_bokeh()
            processes = LocalProcesses(place)
        case RunningScheduler(address=address):
            processes, dashboard = Running(address), True
            number = processes.num_workers
        case SlurmJobs(settings=settings):
            processes, number, dashboard = SlurmWorkers(settings, say), settings.num_workers, True
    opened.callback(processes.close)
    client = DaskClient(processes.client, begin, given)
    if isinstance(processes, SlurmWorkers):
        processes.jobs.fail = client.fail
    opened.callback(client.drop)
    return client, number, processes.dashboard if dashboard else ""


def _refuse_without_bokeh() -> None:
    from importlib.util import find_spec

    if find_spec("bokeh") is None:
        raise InputError("needs the package bokeh; allowed: pip install 'simfrontier[sweep]'", where="--dashboard")


def on_stderr(text: str) -> None:
    """Say a line to whoever waits."""
    sys.stderr.write(f"simfrontier: {text}\n")
    sys.stderr.flush()
