"""Running a command on every rank of an emulated fabric; whatever becomes of this process, nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from simfrontier.errors import SimfrontierError
from simfrontier_extras.emulation.real.layout import load_layable
from simfrontier_extras.emulation.real.probe import missing, private, search_path
from simfrontier_real.rank_process import SHARED, StoppedError, print_stopped, signals

GONE_S = 10.0  # within which everything inside has ended after the signal


def run_in_fabric(wiring: Path, command: Sequence[str]) -> int:
    """Lay the wiring out in namespaces of its own, run `command` as every rank, and remove all of it; the exit code.

    0, the code of the first rank that failed, or 128 + the number of the signal that stopped this process (SIGINT,
    SIGTERM, SIGHUP). Raises InputError for the wiring, SimfrontierError where this system has not what it takes.
    """
    size = len(load_layable(wiring).ranks)
    lacking = missing()
    if lacking:
        raise SimfrontierError(f"no emulated fabric on this system; missing: {'; '.join(lacking)}")
    prefix = private()
    assert prefix is not None
    # The first process inside holds the reading end and leaves at its end of file: this process may die as it likes.
    reading, writing = os.pipe()
    inside = [
        sys.executable,
        "-m",
        "simfrontier_extras.emulation.real.inside",
        str(reading),
        str(wiring.resolve()),
        *command,
    ]
    with signals():
        process: subprocess.Popen[bytes] | None = None
        try:
            # a session of its own: Ctrl-C comes to this process only, which ends the rest in order
            process = subprocess.Popen(
                [*prefix, *inside],
                pass_fds=(reading,),
                stdin=subprocess.DEVNULL,
                start_new_session=True,
                env={**SHARED, **os.environ, "PATH": search_path()},
            )
            code = process.wait()
            return code if code >= 0 else 128 - code
        except StoppedError as stopped:
            return print_stopped(stopped.number, size)
        finally:
            os.close(writing)
            os.close(reading)
            if process is not None:
                _gone(process)


def _gone(process: subprocess.Popen[bytes]) -> None:
    """Wait until the private namespaces have ended; the kernel ends them with the process that made them."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(GONE_S)
        return
    process.kill()
    process.wait()
