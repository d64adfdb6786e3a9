"""Running a command on every rank of an emulated fabric; whatever becomes of this process, nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from simfrontier.base.errors import SimfrontierError
from simfrontier_extras.emulation.real.probe import missing, private, search_path
from simfrontier_extras.emulation.wiring import load_wiring
from simfrontier_real.ranks.rank_process import SHARED, StoppedError, print_stopped, signals

INSIDE: Final = "simfrontier_extras.emulation.real.inside"
WITH_PARENT: Final = ("setpriv", "--pdeathsig", "KILL")  # killed when this process ends, and the namespaces with it


def run_in_fabric(wiring: Path, command: Sequence[str]) -> int:
    """Build the wiring in namespaces of its own, run `command` as every rank, and remove all of it; return the exit
    code.

    0, the code of the first rank that failed, or 128 + the number of the signal that stopped this process (SIGINT,
    SIGTERM, SIGHUP). Raises InputError for the wiring, SimfrontierError where this system lacks what it takes.
    """
    size = len(load_wiring(wiring).ranks)
    lacking = missing()
    if lacking:
        raise SimfrontierError(f"no emulated fabric on this system; missing: {'; '.join(lacking)}")
    inside = [sys.executable, "-m", INSIDE, str(wiring.resolve()), *command]
    with signals():
        # a session of its own: Ctrl-C comes to this process only, which ends the rest
        process = subprocess.Popen(
            [*WITH_PARENT, *private(), *inside],
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**SHARED, **os.environ, "PATH": search_path()},
        )
        try:
            code = process.wait()
            return code if code >= 0 else 128 - code
        except StoppedError as stopped:
            return print_stopped(stopped.number, size)
        finally:
            process.kill()
            process.wait()
