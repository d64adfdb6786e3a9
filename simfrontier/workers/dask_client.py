"""Workers of this machine by Dask."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from simfrontier.workers.place import Place


class _Client:
    def __init__(self, cluster: Any, client: Any) -> None:
        self._cluster, self._client = cluster, client

    def submit(self, work: Callable[..., Any], *given: Any, on: int | None = None) -> Any:
        # A worker that is lost comes back under another address: its calls go to any, or they would wait for ever.
        where = None if on is None else [on]
        return self._client.submit(work, *given, pure=False, workers=where, allow_other_workers=on is not None)

    def end(self) -> None:
        for nanny in self._cluster.workers.values():
            nanny.auto_restart = False
            if nanny.pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(nanny.pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        self._client.close()
        self._cluster.close()


def started(place: Place, begin: Callable[..., None] | None, given: tuple[Any, ...]) -> _Client:
    """Start processes, and wait for nothing."""
    import distributed

    dask: Any = distributed  # which has no types of its own calls
    cluster = dask.LocalCluster(
        n_workers=place.jobs, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
    )
    client = dask.Client(cluster)
    if begin is not None:
        client.run(begin, *given)
    return _Client(cluster, client)
