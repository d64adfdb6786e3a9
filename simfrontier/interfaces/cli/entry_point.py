"""The entry point of the command line."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

STOPPED = 130  # the exit code after Ctrl-C


def main() -> None:
    """Run a verb. Every error ends in one line and an exit code, never in a traceback."""
    gc.set_threshold(100_000, 20, 20)  # schedules are many objects and few cycles
    with ctrl_c_ends_at_once():
        os.environ.setdefault(
            "PYDANTIC_DISABLE_PLUGINS", "__all__"
        )  # or it reads the metadata of all that is installed
        from simfrontier.base.command_line import run_to_end
        from simfrontier.interfaces.cli.typer_app import app_of

        named = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
        app = app_of(named)
        let_sigterm_stop()
    run_to_end("simfrontier", app)


@contextmanager
def ctrl_c_ends_at_once() -> Iterator[None]:
    """Context in which Ctrl-C ends the process silently: during imports nothing has begun, and an exception raised in
    the middle of an import may be printed or swallowed by the imported module."""
    is_usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # not where it is ignored
    if not is_usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    signal.signal(signal.SIGINT, lambda *_: os._exit(STOPPED))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def let_sigterm_stop() -> None:
    """Raise SIGTERM in this process as Ctrl-C is, the first one only: `timeout` sends two."""
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:  # it is ignored
        return
    from simfrontier.base.errors import Terminated

    def terminate(*_: object) -> None:
        signal.signal(signal.SIGTERM, lambda *_: None)  # not SIG_IGN, which processes that are started would inherit
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)
