"""Ranks of our own as forks of one process that has imported everything: sixteen imports of torch take long on two
cores."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress


def preload() -> None:
    """Import what the ranks will need; nothing of it starts a thread. The ranks' collectors of garbage never look at
    it: each would write to every page of it, and so copy what all of them share."""
    import torch.distributed  # noqa: F401

    import simfrontier_real.cli
    import simfrontier_real.train_session  # noqa: F401
    from simfrontier_real.timed import freeze

    freeze()


class ChildProcess:
    """A child process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Its exit code (minus the signal's number where one killed it), None while it runs."""
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""
        if self.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


def run(arguments: Sequence[str], environment: Mapping[str, str]) -> ChildProcess:
    """`simfrontier-real ARGUMENTS` in a child of this thread's network namespace."""
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        return ChildProcess(pid)
    code = 1
    try:
        os.environ.update(environment)
        sys.argv = ["simfrontier-real", *arguments]
        code = _main()
    finally:
        try:
            for stream in (sys.stdout, sys.stderr):
                with suppress(OSError, ValueError):  # who read it has gone, or it was closed
                    stream.flush()
        finally:
            os._exit(code)  # nothing of the parent's stack is ours to unwind


def _main() -> int:
    from simfrontier_real.cli import main

    try:
        main()
    except SystemExit as left:
        return left.code if isinstance(left.code, int) else int(left.code is not None)
    except Exception:  # report it as an interpreter of its own would: no caller sees it
        traceback.print_exc()
        return 1
    return 0
