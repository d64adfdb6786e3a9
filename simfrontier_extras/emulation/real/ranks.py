"""The rank processes of a fabric, each started in its box."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from simfrontier.errors import SimfrontierError
from simfrontier_extras.emulation.real import forked, kernel
from simfrontier_extras.emulation.real.build import NamespaceFabric
from simfrontier_extras.emulation.real.client import ENVIRONMENT, SOCKET, WIRING
from simfrontier_extras.emulation.real.layout import CONTROL, DATA
from simfrontier_real.rank_process import RankProcess

OURS = (sys.executable, "-m", "simfrontier_real")
PORT = 29500  # nobody else is on this network


def start(fabric: NamespaceFabric, wiring: Path, command: Sequence[str]) -> list[RankProcess]:
    """One process per rank; a command of our own is forked from this process, which then imports torch once for all.
    Raises SimfrontierError where the command cannot be run."""
    is_ours = tuple(command[: len(OURS)]) == OURS
    if is_ours:
        forked.preload()
    out: list[RankProcess] = []
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
