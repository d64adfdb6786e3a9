"""What runs in a worker process: its beginning, and calls, one at a time."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any, Final

from simfrontier import __version__
from simfrontier.errors import SimfrontierError
from simfrontier.parent import die_with_parent
from simfrontier.workers.garbage import Garbage
from simfrontier.workers.quiet import silence


class WorkerVersionError(SimfrontierError):
    """A worker has another version of simfrontier than the process whose calls it does."""


class Process:
    """This process as a worker. Calls of several commands may come, each with its own preparation: what one has made
    ready is not there for the other, because functions keep what they are given in their modules."""

    def __init__(self) -> None:
        self._turn = threading.Lock()  # functions are not made for threads
        self._prepared: str | None = None
        self._garbage = Garbage()

    def do(self, prepared: str, preparation: bytes | None, call: bytes) -> bytes | None:
        """The pickled result of a pickled call. None, and nothing is done, if the call needs this process `prepared`,
        it is not, and no preparation is given."""
        with self._turn:
            if prepared and self._prepared != prepared:
                if preparation is None:
                    return None
                self._prepared = None
                _called(preparation)
                self._prepared = prepared
            try:
                return pickle.dumps(_called(call), protocol=pickle.HIGHEST_PROTOCOL)
            finally:
                self._garbage.collect()


_process: Final = Process()


def do(version: str, prepared: str, preparation: bytes | None, call: bytes) -> bytes | None:
    """As `Process.do`. Raises WorkerVersionError, and what the call raises."""
    if version != __version__:
        raise WorkerVersionError(
            f"a worker has simfrontier {__version__}, this process {version}; allowed: the same version everywhere"
        )
    return _process.do(prepared, preparation, call)


def _called(pickled: bytes) -> Any:
    work: Callable[..., Any]
    work, given = pickle.loads(pickled)
    return work(*given)


def dask_setup(_: object) -> None:
    """Make a process a worker of simfrontier; Dask calls this in its main thread before it takes calls (a "preload").
    It leaves Ctrl-C to the process that started it, and on Linux ends with it even where it is stopped."""
    silence()
    gc.disable()
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        started_by = os.getppid()
        die_with_parent()
        if os.getppid() != started_by:  # it has ended since
            os._exit(1)
