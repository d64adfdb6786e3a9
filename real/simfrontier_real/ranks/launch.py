"""Starting all ranks on this machine; where one fails, or this process gets a signal to stop, all end with one line."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress
from typing import Any

from simfrontier.base.errors import InputError
from simfrontier_real.options import refuse_without_torch
from simfrontier_real.ranks.rank_process import SHARED, StoppedError, end, print_stopped, signals, watch
from simfrontier_real.ranks.world import step_key

ADDRESS = "127.0.0.1"


def is_launched() -> bool:
    """Whether this process is a rank that `launch` has started. Raises InputError where torchrun has started it."""
    if "TORCHELASTIC_RUN_ID" in os.environ:
        raise InputError("torchrun has started this process; allowed: one of the two", where="--ranks")
    return "RANK" in os.environ


def launch(num_ranks: int) -> int:
    """Run this command in so many processes; the exit code of the first that failed, or 0.

    When one ends with an error or is killed, the others are ended, too; on Linux all end with this process.
    Raises InputError where there is no torch.
    """
    refuse_without_torch()
    from torch._C._distributed_c10d import TCPStore

    store = TCPStore(ADDRESS, 0, is_master=True, wait_for_workers=False)  # any rank may end, and it stays
    place = {
        **SHARED,
        **os.environ,
        "WORLD_SIZE": str(num_ranks),
        "MASTER_ADDR": ADDRESS,
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",  # torch's word for a store that the launcher has; the ranks end with it
    }
    ranks: list[subprocess.Popen[bytes]] = []
    with signals():
        try:
            for rank in range(num_ranks):
                ranks.append(_started({**place, "RANK": str(rank), "LOCAL_RANK": str(rank)}))
            return watch(ranks, lambda rank: _step_of(store, rank))
        except StoppedError as stopped:
            end(ranks)
            return print_stopped(stopped.number, num_ranks)
        finally:
            for process in ranks:
                with suppress(OSError):
                    process.kill()


def _step_of(store: Any, rank: int) -> str:
    """In words, the step that a rank was in, where it trained."""
    key = step_key(rank)
    with suppress(RuntimeError):
        if store.check([key]):
            return f"in step {store.get(key).decode()}"
    return ""


def _started(environment: dict[str, str]) -> subprocess.Popen[bytes]:
    """A rank, in a session of its own: Ctrl-C comes to this process only, which ends the ranks in order."""
    return subprocess.Popen(
        [sys.executable, "-m", "simfrontier_real", *sys.argv[1:]],
        env=environment,
        stdin=subprocess.DEVNULL,
        start_new_session=True,
    )
