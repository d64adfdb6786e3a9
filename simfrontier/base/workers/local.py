"""Local worker processes, the setup that Dask runs in each worker process (a preload), and connections to running
schedulers."""

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
    """Return the name of the Dask resource that only this worker has; the name stays the same if the worker's process
    is restarted."""
    return f"worker-{worker}"


@contextmanager
def local_cluster(place: Local) -> Iterator[Any]:
    """Context manager: a Dask cluster of `place.jobs` worker processes, with the scheduler in a thread of this process.
    At the end the worker processes are killed, even in the middle of a call."""
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
    """Context manager that blocks Ctrl-C and SIGTERM: in this thread until the block ends, and permanently in threads
    started in the block and in the processes of these threads. A Dask cluster that is interrupted while it starts
    cannot be closed."""
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
    """Prepare a worker process; Dask calls this function before the process accepts calls."""
    gc.set_threshold(*SELDOM)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # which the starting thread held back (without_stops)
    silence()


def silence() -> None:
    """Turn off Dask's logging in this process; the code that uses the workers reports what matters."""
    named = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")]
    for name in ("distributed", "tornado", "asyncio", *named):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)


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
