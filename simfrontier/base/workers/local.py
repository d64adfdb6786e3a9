"""Worker processes of this machine."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.workers.place import Local

PRELOAD: Final = "simfrontier.base.workers.preload"
ENVIRONMENT: Final = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "DASK_LOGGING__DISTRIBUTED": "critical",
}
SETTINGS: Final[dict[str, Any]] = {
    "distributed.nanny.pre-spawn-environ": ENVIRONMENT,
    "distributed.worker.profile.enabled": False,
    "distributed.worker.http.routes": [],
    "distributed.admin.large-graph-warning-threshold": "1TB",
}


def resource_of(worker: int) -> str:
    """Return the name of the resource that this worker alone has; it survives the worker's processes."""
    return f"worker-{worker}"


@contextmanager
def local_cluster(place: Local) -> Iterator[Any]:
    """A cluster of `place.jobs` worker processes and their scheduler, which runs in a thread of this process. At its
    end they are ended, whatever they do."""
    if place.dashboard and find_spec("bokeh") is None:
        raise InputError("needs the package bokeh; allowed: pip install 'simfrontier[sweep]'", where="--dashboard")
    import distributed

    dask: Any = distributed
    options = {"nthreads": 1, "host": "127.0.0.1", "memory_limit": 0, "dashboard": False, "preload": PRELOAD}
    workers = {
        number: {"cls": dask.Nanny, "options": {**options, "resources": {resource_of(number): 1}}}
        for number in range(place.jobs)
    }
    listens = {"host": "127.0.0.1", "port": 0, "dashboard": place.dashboard, "dashboard_address": "127.0.0.1:0"}
    with ExitStack() as opened:
        with without_stops():
            cluster = dask.SpecCluster(workers=workers, scheduler={"cls": dask.Scheduler, "options": listens})
            opened.callback(_end, cluster)
        yield cluster


@contextmanager
def without_stops() -> Iterator[None]:
    """Hold back Ctrl-C and SIGTERM from this thread until the block ends, and for good from threads that start in it
    and their processes: a cluster of Dask that is left half-started cannot be closed."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end(cluster: Any) -> None:
    for nanny in cluster.workers.values():
        nanny.auto_restart = False
        if nanny.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)
    with suppress(Exception):
        cluster.close(timeout=10)
