"""The entry point of the command line."""

from __future__ import annotations

import gc
import signal
import sys


def main() -> None:
    """Run a verb: whatever comes up ends in one line and an exit code, never in a traceback."""
    gc.disable()  # a verb makes few cycles and ends soon; collecting would take a tenth to a quarter of its time
    from simfrontier.cli.typer_app import app_of
    from simfrontier.ending import run_to_end

    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:  # it is not ignored
        signal.signal(signal.SIGTERM, _terminate)
    named = next((word for word in sys.argv[1:] if not word.startswith("-")), None)
    run_to_end("simfrontier", lambda: app_of(named)())


def _terminate(*_: object) -> None:
    """Raise SIGTERM as Ctrl-C is, the first one: `timeout` sends two."""
    from simfrontier.errors import Terminated

    signal.signal(signal.SIGTERM, lambda *_: None)  # not SIG_IGN, which processes that are started would inherit
    raise Terminated
