"""The rank processes of a fabric, each started in its box, and the first process in the private namespaces, whose end
terminates all others: `python -m simfrontier_extras.emulation.real.ranks WIRING COMMAND...`.

Ranks of simfrontier-real are forks of one process that has imported torch: sixteen separate imports take long on two
cores.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Final

from simfrontier.base.errors import SimfrontierError
from simfrontier_extras.emulation.real.fabric import WIRING, build, in_namespace, missing, private, search_path
from simfrontier_extras.emulation.real.layout import CONTROL, DATA, NamespaceLayout, lay_out
from simfrontier_extras.emulation.wiring import load_wiring
from simfrontier_real.ranks.launch import SHARED, RankProcess, StoppedError, print_stopped, signals, watch

WITH_PARENT: Final = ("setpriv", "--pdeathsig", "KILL")  # killed when this process ends, and the namespaces with it


def run_in_fabric(wiring: Path, command: Sequence[str]) -> int:
    """Build the wiring in private namespaces, run `command` as every rank, and remove everything; return the exit code.

    The exit code is 0, the code of the first rank that failed, or 128 + the number of the signal that stopped this
    process (SIGINT, SIGTERM, SIGHUP). Raises InputError for an invalid wiring, SimfrontierError if this system cannot
    build a fabric.
    """
    size = len(load_wiring(wiring).ranks)
    lacking = missing()
    if lacking:
        raise SimfrontierError(f"no emulated fabric on this system; missing: {'; '.join(lacking)}")
    inside = [sys.executable, "-m", "simfrontier_extras.emulation.real.ranks", str(wiring.resolve()), *command]
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


OURS: Final = [sys.executable, "-m", "simfrontier_real"]
PORT: Final = 29500  # nobody else is on this network


class ForkedRank:
    """A rank process that is a fork of this process."""

    def __init__(self, process: BaseProcess) -> None:
        self.process = process

    def poll(self) -> int | None:
        """Return the exit code of the rank (minus the signal number if a signal killed it), None while it runs."""
        return self.process.exitcode

    def send_signal(self, number: int) -> None:
        """Send a signal to the rank if it is still running."""
        if self.process.pid is not None and self.poll() is None:
            os.kill(self.process.pid, number)


def start(layout: NamespaceLayout, wiring: Path, command: Sequence[str]) -> list[RankProcess]:
    """Start a process for each rank. Raises SimfrontierError where the command cannot be run."""
    is_ours = list(command[: len(OURS)]) == OURS
    if is_ours:
        _preload()
    out: list[RankProcess] = []
    for rank, box in enumerate(layout.ranks):
        environment = _environment(layout, rank, wiring)
        try:
            with in_namespace(layout.names[box]):
                out.append(_forked(command[len(OURS) :], environment) if is_ours else _started(command, environment))
        except OSError as error:
            raise SimfrontierError(f"rank {rank} cannot be started: {command[0]}: {error.strerror}") from error
    return out


def _environment(layout: NamespaceLayout, rank: int, wiring: Path) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(len(layout.ranks)),
        "LOCAL_RANK": str(rank),
        "MASTER_ADDR": layout.control[0],
        "MASTER_PORT": str(PORT),
        "SIMFRONTIER_DATA_IFNAME": DATA,
        "SIMFRONTIER_CONTROL_IFNAME": CONTROL,
        WIRING: str(wiring),
    }


def _preload() -> None:
    """Import the modules that the ranks will need, none of which starts a thread, and exclude them from the ranks'
    garbage collection: each collector would write to every page, and so copy the memory that all ranks share."""
    import torch.distributed  # noqa: F401

    import simfrontier_real.cli
    import simfrontier_real.train.train_session  # noqa: F401
    from simfrontier_real.replay.timed import freeze

    freeze()


def _forked(arguments: Sequence[str], environment: Mapping[str, str]) -> ForkedRank:
    process = multiprocessing.get_context("fork").Process(target=_run, args=(arguments, environment))
    process.start()
    return ForkedRank(process)


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> None:
    from simfrontier_real.cli import main

    os.environ.update(environment)
    sys.argv = ["simfrontier-real", *arguments]
    main()


def _started(command: Sequence[str], environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL)


def main(path: Path, command: list[str]) -> int:
    """Build the fabric, and run the command as every rank; return the exit code of the ranks."""
    try:
        layout = lay_out(load_wiring(path))
        build(layout)
        return watch(start(layout, path, command))
    except SimfrontierError as error:
        sys.stderr.write(f"simfrontier-real: {error}\n")
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
