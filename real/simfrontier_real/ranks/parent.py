"""A process that ends with the one that started it, however that one ends: killed, too."""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import wait

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def end_with_parent(sentinel: int) -> None:
    """Let this process end as soon as its parent is gone; otherwise it would wait for work, or for others, for ever.

    `sentinel` becomes readable then: the reading end of a pipe of which the parent alone holds the writing end, or
    `multiprocessing.parent_process().sentinel`. On Linux the kernel kills this process besides, even where it is
    stopped and no thread of it runs.
    """
    die_with_parent()
    threading.Thread(target=_end_after, args=(sentinel,), daemon=True).start()


def die_with_parent() -> None:
    """On Linux: let the kernel kill this process as soon as the thread that started it is gone. Elsewhere nothing."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _end_after(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
