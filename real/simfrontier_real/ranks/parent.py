"""The end of a process with the one that started it, however that one ends: killed, too."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def die_with_parent() -> None:
    """On Linux: let the kernel kill this process as soon as the thread that started it is gone. Elsewhere nothing."""
    if sys.platform == "linux":
        import ctypes

        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
