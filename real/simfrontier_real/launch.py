"""Starting all ranks on this machine with torch's own launcher, and one line instead of its report where one fails."""

from __future__ import annotations

import logging
import os
import signal
import sys
from importlib.util import find_spec

from simfrontier.errors import InputError


def _refuse_without_torch() -> None:
    if find_spec("torch") is None:
        raise InputError("torch is not installed, which running for real needs; make setup-real installs it")


def launch(num_ranks: int, arguments: list[str]) -> int:
    """Run `simfrontier-real ARGUMENTS` in so many processes; the exit code of the first that failed, or 0.

    When one ends with an error or is killed, the others are ended too. Raises InputError where a launcher runs already,
    or there is no torch.
    """
    _refuse_without_torch()
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    if "RANK" in os.environ:
        raise InputError("--ranks: torchrun has started this process; allowed: one of the two")
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # ranks share the cores
    # glibc's threshold moves with what was freed before, so that the same message costs 75 or 130 ms depending on the
    # schedule that ran before it; a fixed one makes large buffers cost the same pages every time
    os.environ.setdefault("MALLOC_MMAP_THRESHOLD_", str(2 << 20))
    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)  # its report repeats what the ranks said
    config = LaunchConfig(
        run_id=f"simfrontier-{os.getpid()}",
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=num_ranks,
        rdzv_backend="c10d",
        rdzv_endpoint="127.0.0.1:0",
        max_restarts=0,
        monitor_interval=0.1,
        local_addr="127.0.0.1",
    )
    try:
        elastic_launch(config, sys.executable)("-m", "simfrontier_real", *arguments)
    except (SignalException, KeyboardInterrupt) as error:
        number = int(getattr(error, "sigval", signal.SIGINT))
        sys.stderr.write(f"simfrontier-real: stopped by signal {number}; all {num_ranks} ranks are stopped\n")
        return 128 + number
    except ChildFailedError as error:
        rank, failure = error.get_first_failure()
        how = f"was killed by signal {-failure.exitcode}" if failure.exitcode < 0 else f"ended with {failure.exitcode}"
        sys.stderr.write(f"simfrontier-real: rank {rank} {how}; all {num_ranks} ranks are stopped\n")
        return failure.exitcode if failure.exitcode > 0 else 1
    return 0


def without_ranks(arguments: list[str]) -> list[str]:
    """Command-line arguments without `--ranks N`."""
    out, skip = [], False
    for argument in arguments:
        if skip:
            skip = False
        elif argument == "--ranks":
            skip = True
        elif not argument.startswith("--ranks="):
            out.append(argument)
    return out
