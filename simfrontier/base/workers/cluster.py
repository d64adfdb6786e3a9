"""Workers by Dask: of a running scheduler, in Slurm jobs, or on this machine with Dask's dashboard."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from typing import Any, Final
from uuid import uuid4

from simfrontier.base.errors import InputError
from simfrontier.base.optional import require
from simfrontier.base.version import __version__
from simfrontier.base.workers.local import KILLED, LostError
from simfrontier.base.workers.place import Local, RunningScheduler, SlurmJobs
from simfrontier.base.workers.preload import ENVIRONMENT, PRELOAD, silence
from simfrontier.base.workers.process import called, without_stops
from simfrontier.base.workers.slurm import slurm_cluster

SETTINGS: Final[dict[str, Any]] = {
    "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],
    "distributed.admin.large-graph-warning-threshold": "1TB",
}
OPTIONS: Final = {RunningScheduler: "--scheduler", SlurmJobs: "--slurm", Local: "--dashboard"}
CONNECT_S: Final = 5.0
EXAMPLE: Final = "allowed: the address that `dask scheduler` prints, e.g. tcp://10.0.0.1:8786"


class DaskWorkers:
    """Dask's client at a place; calls are repeated as often as Dask allows
    (`distributed.scheduler.allowed-failures`)."""

    def __init__(self, place: Local | RunningScheduler | SlurmJobs, say: Callable[[str], None]) -> None:
        self._say, self._lost, self._is_closed = say, "", False
        self._name, self._numbers = f"call-{uuid4().hex}", count()
        self._waiting = set[Future[Any]]()
        require("sweep", OPTIONS[type(place)])
        self._client: Any = None
        self.num_workers = 0
        with ExitStack() as opened:
            self._client = self._started(place, opened)
            opened.callback(self._cancel)
            self.dashboard = str(self._client.dashboard_link)
            self._opened = opened.pop_all()

    def submit(self, work: bytes, worker: int | None) -> Future[Any]:
        """Submit a pickled call, to any worker, and return its future."""
        assert worker is None, "only a local process can be chosen"
        executor = self._client.get_executor(pure=False)
        # Pickled, so that Dask does not look through the arguments; a key of two parts is one group to it.
        future: Future[Any] = executor.submit(called, work, key=(self._name, next(self._numbers)))
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        return future

    def result(self, future: Future[Any]) -> Any:
        """Return the result of a call. Raises the error of the call, LostError if its workers are lost, and
        CancelledError after `close` or if the future was cancelled."""
        from distributed import KilledWorker

        try:
            return future.result()
        except KilledWorker:
            raise LostError(KILLED) from None
        except CancelledError:
            if self._is_closed or self._client.status == "running":
                raise
            raise LostError(self._lost or "the scheduler of the workers is gone") from None

    def close(self) -> None:
        """Stop the workers that were started here, even in the middle of a call."""
        self._is_closed = True
        self._opened.close()

    def _started(self, place: Local | RunningScheduler | SlurmJobs, opened: ExitStack) -> Any:
        """Start the workers at the place and return a client of them; closing `opened` stops them."""
        import dask
        import distributed

        opened.enter_context(dask.config.set(SETTINGS))
        silence()
        match place:
            case RunningScheduler(address=address):
                client = connected(address)
                opened.callback(_close, client)
                self.num_workers = len(client.nthreads())
                return client
            case Local(jobs=jobs):
                self.num_workers = jobs
                cluster = opened.enter_context(_local_cluster(jobs))
            case SlurmJobs(settings=settings):
                self.num_workers = settings.num_workers
                cluster = opened.enter_context(slurm_cluster(settings, self._say, self._give_up))
        client_of: Any = distributed.Client
        with without_stops():
            client = client_of(cluster, set_as_default=False)
            opened.callback(_close, client)
        while not client.nthreads():
            if self._lost:
                raise LostError(self._lost)
            time.sleep(0.1)
        return client

    def _give_up(self, why: str) -> None:
        """Make all waiting and all later calls fail with LostError, with the reason `why`."""
        self._lost = why
        _close(self._client)
        self._cancel()

    def _cancel(self) -> None:
        for future in tuple(self._waiting):
            future.cancel()


@contextmanager
def _local_cluster(jobs: int) -> Iterator[Any]:
    """Context manager: a Dask cluster of worker processes with its dashboard; the scheduler is a thread of this
    process. At the end the worker processes are killed, even in the middle of a call."""
    import distributed

    dask: Any = distributed
    options = {"nthreads": 1, "host": "127.0.0.1", "memory_limit": 0, "dashboard": False, "preload": PRELOAD}
    workers = {number: {"cls": dask.Nanny, "options": options} for number in range(jobs)}
    listens = {"host": "127.0.0.1", "port": 0, "dashboard": True, "dashboard_address": "127.0.0.1:0"}
    with ExitStack() as opened:
        with without_stops():
            cluster = dask.SpecCluster(workers=workers, scheduler={"cls": dask.Scheduler, "options": listens})
            opened.callback(_end, cluster)
        yield cluster


def _end(cluster: Any) -> None:
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        if nanny.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)
    with suppress(Exception):
        cluster.close(timeout=10)


def connected(address: str) -> Any:
    """Return a client of a running scheduler. Raises InputError if no scheduler answers, or its workers cannot run
    simfrontier's calls."""
    import distributed

    dask: Any = distributed
    try:
        client = dask.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, TimeoutError):
        raise _refused_scheduler(f"no scheduler answers at {address} within {CONNECT_S:g} s; {EXAMPLE}") from None
    except (ValueError, TypeError):
        raise _refused_scheduler(f"got {address!r}; {EXAMPLE}") from None
    try:
        _check(client, address)
    except BaseException:
        client.close()
        raise
    return client


def _check(client: Any, address: str) -> None:
    """Raise InputError unless the scheduler has workers, each with one thread and with this process's version of
    simfrontier."""
    needed = f"allowed: workers of one thread (`dask worker {address} --nthreads 1 --nworkers N`)"
    threads: dict[str, int] = client.nthreads()
    if not threads:
        raise _refused_scheduler(f"the scheduler at {address} has no workers; {needed}")
    for worker, number in threads.items():
        if number != 1:
            raise _refused_scheduler(f"the worker at {worker} has {number} threads; {needed}")
    for worker, version in client.run(_version, on_error="return").items():
        if version != __version__:
            raise _refused_scheduler(
                f"the worker at {worker} has simfrontier {version}, this process {__version__}; allowed: the same "
                "version everywhere"
            )


def _version() -> str:
    """Return the version of simfrontier that a worker imports."""
    return __version__


def _refused_scheduler(what: str) -> InputError:
    return InputError(what, where="--scheduler")


def _close(client: Any) -> None:
    with suppress(Exception):
        client.close(timeout=2)
