"""A rank that joins the others; the one that is named stops itself, the others wait for all before a step."""

from __future__ import annotations

import os
import signal
import sys

from simfrontier_real.ranks.session import session


def main(victim: int, timeout_s: float) -> None:
    with session([], "gloo", True, 60.0, timeout_s) as opened:
        opened.world.barrier()
        if opened.world.rank == victim:
            os.kill(os.getpid(), signal.SIGSTOP)
        opened.world.barrier_of_step()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
