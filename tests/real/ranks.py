"""Real ranks for the tests, one process each, forked from a process that has imported torch."""

from __future__ import annotations

import multiprocessing
import os
import runpy
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

WARM = "tests.real.warm"  # what the process imports from which ranks are forked
JOINS = {"train", "replay", "losses", "measure"}  # commands of ranks that join each other
ROOT = Path(__file__).resolve().parents[2]
JOIN_S = 120.0  # within which all ranks must have come, where a test does not say: on a box that is busy


def free_port() -> int:
    """A port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _places(
    arguments: Sequence[Sequence[str]], port: int | None, sizes: Sequence[int] | None
) -> list[tuple[list[str], dict[str, str]]]:
    """Of every rank its arguments and what a launcher would put into its environment."""
    port = free_port() if port is None else port
    out = []
    for rank, mine in enumerate(arguments):
        joins = JOINS & set(mine[:2]) and "--join-timeout" not in mine
        place = {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(arguments) if sizes is None else sizes[rank]),
            "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
            "OMP_NUM_THREADS": "1",
        }
        out.append(([*mine, *(["--join-timeout", str(JOIN_S)] if joins else [])], place))
    return out


@dataclass(frozen=True)
class Ended:
    """How all ranks of a run ended."""

    codes: tuple[int, ...]
    out: str
    err: str
    orphans: tuple[int, ...]


@dataclass
class WarmRanks:
    """Processes of one run, forked from a process of this test worker that has imported torch: each starts in
    milliseconds, and is else as fresh as a launched one. Environment, output, memory and exit code are its own."""

    processes: list[BaseProcess]
    folder: Path  # of their output

    @classmethod
    def start(
        cls,
        arguments: Sequence[Sequence[str]],
        port: int | None = None,
        sizes: Sequence[int] | None = None,
        module: str = "simfrontier_real",
    ) -> WarmRanks:
        """Start `python -m MODULE` for every list of arguments; `sizes` are their world sizes (default: how
        many there are)."""
        server = multiprocessing.get_context("forkserver")
        server.set_forkserver_preload([WARM])
        out = cls([], Path(tempfile.mkdtemp(prefix="ranks-")))
        for rank, (mine, place) in enumerate(_places(arguments, port, sizes)):
            streams = [str(out._stream(name, rank)) for name in ("out", "err")]
            out.processes.append(
                server.Process(target=_be_rank, args=(module, mine, {**os.environ, **place}, *streams))
            )
        for process in out.processes:
            process.start()
        return out

    def kill(self, rank: int) -> None:
        self.processes[rank].kill()

    def wait(self, limit_s: float) -> Ended:
        """Wait for all; those that outlast the limit are killed and counted as orphans."""
        deadline = time.monotonic() + limit_s
        codes, orphans = [], []
        for rank, process in enumerate(self.processes):
            process.join(max(0.1, deadline - time.monotonic()))
            if process.is_alive():
                orphans.append(rank)
                process.kill()
                process.join()
            assert process.exitcode is not None
            codes.append(process.exitcode)
            process.close()
        paths = [[self._stream(name, rank) for rank in range(len(codes))] for name in ("out", "err")]
        out, err = ("".join(path.read_text(encoding="utf-8") for path in each if path.exists()) for each in paths)
        shutil.rmtree(self.folder)
        return Ended(tuple(codes), out, err, tuple(orphans))

    def _stream(self, name: str, rank: int) -> Path:
        return self.folder / f"{name}-{rank}"


def run_ranks(
    arguments: Sequence[Sequence[str]],
    limit_s: float,
    module: str = "simfrontier_real",
    port: int | None = None,
    sizes: Sequence[int] | None = None,
) -> Ended:
    """Run `python -m MODULE ARGUMENTS` as every rank, and wait for all."""
    return WarmRanks.start(arguments, port, sizes, module).wait(limit_s)


def trained(arguments: Sequence[str], num_ranks: int, limit_s: float) -> Ended:
    """The same command on so many ranks, all of which must end well."""
    ended = run_ranks([arguments] * num_ranks, limit_s)
    assert ended.orphans == () and set(ended.codes) == {0}, ended.err or ended.out
    return ended


def _be_rank(module: str, arguments: Sequence[str], environment: Mapping[str, str], out: str, err: str) -> None:
    """Be `python -m MODULE ARGUMENTS` in that environment, with output to those files, and end with its exit code."""
    os.environ.clear()
    os.environ.update(environment)
    for stream, path in ((1, out), (2, err)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, stream)
        os.close(file)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - to the end of the process
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.argv = [module, *arguments]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
