"""What Dask loads into each worker process that simfrontier starts (a "preload")."""

from __future__ import annotations

import gc
import logging
import signal
from typing import Final

SELDOM: Final = (100_000, 20, 20)  # schedules are many objects and few cycles: by default a third of the time is gc's


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
