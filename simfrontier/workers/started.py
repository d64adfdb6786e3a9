"""Workers at a place, started."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from simfrontier.workers.dask_client import DaskClient
from simfrontier.workers.place import Place
from simfrontier.workers.quiet import silenced


def started(
    place: Place, begin: Callable[..., None] | None, given: tuple[Any, ...], opened: ExitStack
) -> tuple[DaskClient, str]:
    """A client of workers at a place, which end with `opened`, and the address of Dask's pages."""
    import dask
    import distributed  # noqa: F401 (its loggers are there from here on)

    from simfrontier.workers.local_cluster import SETTINGS, LocalProcesses

    opened.enter_context(silenced())
    opened.enter_context(dask.config.set(SETTINGS))
    processes = LocalProcesses(place)
    opened.callback(processes.close)
    client = DaskClient(processes.client, begin, given)
    opened.callback(client.drop)
    return client, processes.dashboard if place.dashboard else ""
