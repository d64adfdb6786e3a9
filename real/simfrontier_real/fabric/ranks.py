"""The rank processes of a fabric, each in its box: started, watched, and ended together where one fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from simfrontier.errors import SimfrontierError
from simfrontier_real.fabric import forked, kernel
from simfrontier_real.fabric.build import Fabric
from simfrontier_real.fabric.client import ENVIRONMENT, SOCKET, WIRING
from simfrontier_real.fabric.layout import CONTROL, DATA

OURS = (sys.executable, "-m", "simfrontier_real")
PORT = 29500  # nobody else is on this network
POLL_S = 0.05
GRACE_S = 3.0  # for ranks that are told to end, before they are killed


class Process(Protocol):
    """A rank's process, as it was started."""

    def poll(self) -> int | None:
        """Its exit code (minus the signal's number where one killed it), None while it runs."""

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it still runs."""


def start(fabric: Fabric, wiring: Path, command: Sequence[str]) -> list[Process]:
    """One process per rank; a command of our own is forked from this process, which then imports torch once for all.
    Raises SimfrontierError where the command cannot be run."""
    is_ours = tuple(command[: len(OURS)]) == OURS
    if is_ours:
        forked.preload()
    out: list[Process] = []
    size = len(fabric.layout.ranks)
    for rank, box in enumerate(fabric.layout.ranks):
        place = {
            "RANK": str(rank),
            "WORLD_SIZE": str(size),
            "LOCAL_RANK": str(rank),
            "MASTER_ADDR": fabric.layout.control[0],
            "MASTER_PORT": str(PORT),
            "SIMFRONTIER_DATA_IFNAME": DATA,
            "SIMFRONTIER_CONTROL_IFNAME": CONTROL,
            ENVIRONMENT: SOCKET,
            WIRING: str(wiring),
        }
        try:
            with kernel.in_net(fabric.namespaces[box]):
                if is_ours:
                    out.append(forked.run(command[len(OURS) :], place))
                else:
                    out.append(subprocess.Popen(command, env={**os.environ, **place}, stdin=subprocess.DEVNULL))
        except OSError as error:
            raise SimfrontierError(f"rank {rank} cannot be started: {command[0]}: {error.strerror}") from error
    return out


def watch(processes: Sequence[Process]) -> int:
    """Wait for all; 0, or the exit code of the first that failed, said in one line, when the others are ended."""
    while True:
        codes = [process.poll() for process in processes]
        failed = [rank for rank, code in enumerate(codes) if code]
        if failed:
            # of those that ended since the last look, one that was killed did not end because of another
            rank = min(failed, key=lambda each: ((codes[each] or 0) > 0, each))
            end(processes)
            return _said(rank, codes[rank] or 0, len(processes))
        if all(code == 0 for code in codes):
            return 0
        time.sleep(POLL_S)


def end(processes: Sequence[Process]) -> None:
    """End those that still run; what does not listen is killed."""
    for number, limit_s in ((signal.SIGTERM, GRACE_S), (signal.SIGKILL, GRACE_S)):
        running = [process for process in processes if process.poll() is None]
        for process in running:
            process.send_signal(number)
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline and any(process.poll() is None for process in running):
            time.sleep(POLL_S)


def _said(rank: int, code: int, size: int) -> int:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
    sys.stderr.write(f"simfrontier-real: rank {rank} {how}; all {size} ranks are stopped\n")
    return code if code > 0 else 1
