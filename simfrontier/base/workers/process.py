"""A worker process on this machine: it runs the calls that arrive on its standard input, one after another, and ends
with the process that started it."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import Any, BinaryIO, Final

from simfrontier.base.errors import SimfrontierError

ENVIRONMENT: Final = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
SELDOM: Final = (100_000, 20, 20)  # schedules are many objects and few cycles: by default a third of the time is gc's
PROGRAM: Final = "import sys; sys.path[:] = {path!r}; from simfrontier.base.workers.process import main; main()"


def started() -> subprocess.Popen[bytes]:
    """Start a worker process, which imports modules as this process does. Unlike those of `multiprocessing` it does not
    run the main script again."""
    path = [each for each in sys.path if isinstance(each, str)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.format(path=path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | ENVIRONMENT,
    )


@contextmanager
def without_stops() -> Iterator[None]:
    """Context manager that blocks Ctrl-C and SIGTERM: in this thread until the block ends, and permanently in threads
    started in the block and in the processes of these threads. Workers that are interrupted while they start cannot be
    stopped."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def prepare() -> None:
    """Prepare a worker process before its first call."""
    gc.set_threshold(*SELDOM)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes of a terminal; the first one decides
    if sys.platform != "win32":
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})  # which the starting thread blocked


def main() -> None:
    """Answer the calls on standard input on standard output; what calls print goes to standard error."""
    prepare()
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    arrived: SimpleQueue[bytes] = SimpleQueue()
    Thread(target=_read, args=(sys.stdin.buffer, arrived), daemon=True).start()
    while True:
        pickle.dump(_answer(arrived.get()), answers)
        answers.flush()


def called(pickled: bytes) -> Any:
    """Run a pickled call in a worker process."""
    work, given = pickle.loads(pickled)
    return work(*given)


def _read(calls: BinaryIO, arrived: SimpleQueue[bytes]) -> None:
    """Read calls until the starting process has ended, and end this process then, in the middle of a call too."""
    try:
        while True:
            arrived.put(pickle.load(calls))
    finally:
        os._exit(0)


def _answer(call: bytes) -> bytes:
    """Return the pickled result of a call, or its error with its traceback as a note."""
    try:
        return pickle.dumps((called(call), None), protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        if not isinstance(error, SimfrontierError):
            error.add_note(f"In a worker process:\n{traceback.format_exc()}")
        return pickle.dumps((None, error))
