"""Worker processes of this machine, what Dask loads into each (a preload), and schedulers that others started."""

from __future__ import annotations

import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.version import __version__
from simfrontier.base.workers.place import Local

PRELOAD: Final = "simfrontier.base.workers.local"
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
SELDOM: Final = (100_000, 20, 20)  # schedules are many objects and few cycles: by default a third of the time is gc's
CONNECT_S: Final = 5.0
EXAMPLE: Final = "allowed: the address that `dask scheduler` prints, e.g. tcp://10.0.0.1:8786"


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


def dask_setup(_: object) -> None:
    """Prepare a worker process; Dask calls this before the process takes calls."""
    gc.set_threshold(*SELDOM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # which the starting thread held back (without_stops)
    silence()


def silence() -> None:
    """Turn Dask's log off in this process: whoever uses workers reports what matters."""
    named = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")]
    for name in ("distributed", "tornado", "asyncio", *named):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


def connected(address: str) -> Any:
    """Return a client of a running scheduler. Raises InputError where none answers, or its workers cannot run
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
    """Raise InputError unless there are workers, each of one thread, with the versions of this process."""
    needed = f"allowed: workers of one thread (`dask worker {address} --nthreads 1 --nworkers N`)"
    threads: dict[str, int] = client.nthreads()
    if not threads:
        raise _refused_scheduler(f"the scheduler at {address} has no workers; {needed}")
    for worker, count in threads.items():
        if count != 1:
            raise _refused_scheduler(f"the worker at {worker} has {count} threads; {needed}")
    for worker, versions in client.get_versions(packages=["simfrontier"])["workers"].items():
        version = versions["packages"].get("simfrontier")
        if version != __version__:
            raise _refused_scheduler(
                f"the worker at {worker} has simfrontier {version}, this process {__version__}; allowed: the same "
                "version everywhere"
            )


def _refused_scheduler(what: str) -> InputError:
    return InputError(what, where="--scheduler")
