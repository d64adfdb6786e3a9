"""Real ranks for the tests: one process each, as a launcher would start them, with their own arguments where needed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Ranks:
    """Processes of one run, by rank."""

    processes: list[subprocess.Popen[str]] = field(default_factory=list)

    @classmethod
    def start(
        cls,
        arguments: Sequence[Sequence[str]],
        port: int | None = None,
        sizes: Sequence[int] | None = None,
        module: str = "simfrontier_real",
    ) -> Ranks:
        """Start a process of `module` for every list of arguments; `sizes` are the world sizes they are told (default:
        how many there are)."""
        port = free_port() if port is None else port
        out = cls()
        for rank, mine in enumerate(arguments):
            size = len(arguments) if sizes is None else sizes[rank]
            place = {
                "RANK": str(rank),
                "WORLD_SIZE": str(size),
                "LOCAL_RANK": str(rank),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(port),
                "OMP_NUM_THREADS": "1",
            }
            out.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", module, *mine],
                    env={**os.environ, **place},
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                    cwd=ROOT,
                )
            )
        return out

    def kill(self, rank: int) -> None:
        self.processes[rank].send_signal(signal.SIGKILL)

    def wait(self, limit_s: float) -> Ended:
        """Wait for all; those that outlast the limit are killed and counted as orphans."""
        deadline = time.monotonic() + limit_s
        codes, out, err, orphans = [], [], [], []
        for rank, process in enumerate(self.processes):
            try:
                message, warned = process.communicate(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                orphans.append(rank)
                process.kill()
                message, warned = process.communicate()
            codes.append(process.returncode)
            out.append(message)
            err.append(warned)
        return Ended(tuple(codes), "".join(out), "".join(err), tuple(orphans))


@dataclass(frozen=True)
class Ended:
    """How all ranks of a run ended."""

    codes: tuple[int, ...]
    out: str
    err: str
    orphans: tuple[int, ...]
