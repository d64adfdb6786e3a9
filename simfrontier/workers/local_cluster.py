"""Worker processes of this machine, by Dask's nannies, which start another one where one is lost."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from simfrontier.workers.dask_client import resource_of
from simfrontier.workers.lost import WorkerLostError
from simfrontier.workers.place import Local

MOST_LOSSES: Final = 10  # of workers that did the same call, which are replaced; at the next the call is given up
PRELOAD: Final = ["simfrontier.workers.in_worker"]
ENVIRONMENT: Final = {  # of a worker process from its first moment on
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "DASK_LOGGING__DISTRIBUTED": "critical",
}
SETTINGS: Final[dict[str, Any]] = {
    "distributed.scheduler.allowed-failures": MOST_LOSSES,
    "distributed.scheduler.worker-saturation": 1.0,
    "distributed.scheduler.work-stealing": False,
    "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
    "distributed.admin.large-graph-warning-threshold": "1TB",
    "distributed.worker.profile.enabled": False,
    # What looks at the health of a process does so seldom: at Dask's intervals it took 3 % of every worker.
    "distributed.admin.tick.interval": "1s",
    "distributed.admin.tick.cycle": "10s",
    "distributed.admin.tick.limit": "1h",
    "distributed.admin.system-monitor.interval": "5s",
    "distributed.admin.system-monitor.disk": False,
    "distributed.diagnostics.computations.nframes": 0,
    # Dask's scheduler keeps what it was asked last, with the whole calls: a thousand of them took 60 MB.
    "distributed.diagnostics.computations.max-history": 1,
    "distributed.admin.low-level-log-length": 10,
    "distributed.worker.multiprocessing-method": "spawn",
    "distributed.worker.preload": [],
    "distributed.scheduler.preload": [],
    "distributed.nanny.preload": [],
    "distributed.worker.http.routes": [],
    # A worker that is lost has this long to come back before Dask ends its nanny or its job, too (otherwise 15 s, which
    # a busy machine takes to start a process, and after which calls would wait for nobody). Never, here.
    "distributed.deploy.lost-worker-timeout": "3650 days",
}
MOST_STARTS: Final = 1 + MOST_LOSSES  # of all processes, where one of them ends while it starts


class NoSpans:
    """Scheduler extension in the place of Dask's record of spans, which keeps an entry for each call for ever."""

    def __init__(self, _: object) -> None:
        pass

    def observe_tasks(self, *_: object, **__: object) -> dict[object, object]:
        """No task is annotated."""
        return {}

    def heartbeat(self, *_: object) -> None:
        """Measurements of workers by span are not kept."""


def scheduler_extensions() -> dict[str, Any]:
    """Dask's own extensions of a scheduler, but for spans."""
    from distributed.scheduler import DEFAULT_EXTENSIONS

    return {**DEFAULT_EXTENSIONS, "spans": NoSpans}


class LocalProcesses:
    """`place.jobs` worker processes with their scheduler, which runs in a thread of this process."""

    def __init__(self, place: Local) -> None:
        import distributed

        dask: Any = distributed
        self._environment = {name: os.environ.get(name) for name in ENVIRONMENT}
        self._scratch = tempfile.mkdtemp(prefix="simfrontier-")
        options = {
            "nthreads": 1,
            "host": "127.0.0.1",
            "memory_limit": 0,
            "local_directory": self._scratch,
            "dashboard": False,
            "preload": PRELOAD,
        }
        workers = {
            number: {"cls": distributed.Nanny, "options": {**options, "resources": {resource_of(number): 1}}}
            for number in range(place.jobs)
        }
        scheduler = {
            "cls": distributed.Scheduler,
            "options": {
                "host": "127.0.0.1",
                "protocol": "tcp://",
                "port": 0,
                "dashboard": place.dashboard,
                "dashboard_address": "127.0.0.1:0",  # any free port
                "extensions": scheduler_extensions(),
            },
        }
        self.cluster: Any = None
        self.client: Any = None
        try:
            with ctrl_c_is_left_to_this_thread():
                self.cluster = _cluster(workers, scheduler)
                self.client = dask.Client(self.cluster, set_as_default=False)
        except BaseException:
            self.close()
            raise
        # Nothing is written there, but a process that is killed would leave it behind.
        shutil.rmtree(self._scratch, ignore_errors=True)

    @property
    def dashboard(self) -> str:
        return str(self.cluster.dashboard_link)

    def close(self) -> None:
        """End the workers, whatever they do."""
        if self.cluster is not None:
            self._kill()
            with suppress(Exception):
                if self.client is not None:
                    self.client.close(timeout=2)
            with suppress(Exception):
                self.cluster.close(timeout=10)
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._restore_environment()

    def _restore_environment(self) -> None:
        """Nannies set what their processes are to have in this process, too."""
        for name, value in self._environment.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    def _kill(self) -> None:
        for nanny in self.cluster.workers.values():
            nanny.auto_restart = False
            if nanny.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(nanny.pid, signal.SIGKILL)


def _cluster(workers: dict[int, Any], scheduler: dict[str, Any]) -> Any:
    """A cluster whose workers have started. Raises WorkerLostError."""
    import distributed

    dask: Any = distributed
    for _ in range(MOST_STARTS):
        with suppress(RuntimeError):  # "Nanny failed to start", after which Dask has ended the others
            return dask.SpecCluster(workers=workers, scheduler=scheduler, name="simfrontier")
    raise WorkerLostError(
        f"a worker process ended while it started, {MOST_STARTS} times; allowed: fewer --jobs, if memory was short"
    )


@contextmanager
def ctrl_c_is_left_to_this_thread() -> Iterator[None]:
    """Threads that are started meanwhile, and all processes that they start later on, do not hear Ctrl-C, from their
    first moment on. This thread hears of it, and of SIGTERM, afterwards, whichever thread from before is told of it
    meanwhile."""
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which sets the mask itself, if it has to be started
    heard: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    handlers = {number: signal.signal(number, lambda number, _: heard.append(number)) for number in numbers}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for number, handler in handlers.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if heard:
            signal.raise_signal(heard[0])
