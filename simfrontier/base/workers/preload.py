"""The setup that Dask runs in each of its worker processes (a preload)."""

from __future__ import annotations

import logging
from typing import Final

from simfrontier.base.workers import process

PRELOAD: Final = __name__
ENVIRONMENT: Final = process.ENVIRONMENT | {"DASK_LOGGING__DISTRIBUTED": "critical"}


def dask_setup(_: object) -> None:
    """Prepare a worker process; Dask calls this function before the process accepts calls."""
    process.prepare()
    silence()


def silence() -> None:
    """Turn off Dask's logging in this process; the code that uses the workers reports what matters."""
    named = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in ("distributed", "tornado")]
    for name in ("distributed", "tornado", "asyncio", *named):
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
