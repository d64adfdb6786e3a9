"""The end of a run that fails: one rank prints why (a stuck one with the table of all ranks), and every rank ends."""

from __future__ import annotations

import json
import os
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from simfrontier.errors import SimfrontierError
from simfrontier_real.executor import GONE, LostRankError, StuckError, is_broken
from simfrontier_real.heartbeat import LOOK_S, print_line, silent_text
from simfrontier_real.world import LINGER_S, ReportedElsewhereError, World

COLLECT_S = 6.0  # how long the tables of other ranks are waited for; on a busy host they get stuck seconds apart
STAY_S = 15.0  # at most, for ranks that are alive and have not asked who reports: on a busy host seconds apart
MAX_LINES = 40


def end_run(error: BaseException, world: World | None, rank: int) -> NoReturn:
    """Say what happened (one rank for all) and leave with the error's exit code, whatever other threads still do."""
    code = getattr(error, "exit_code", 1)
    if world is not None:
        world.heartbeat.end_by_itself()
    if isinstance(error, StuckError):
        _print_tables(error.table, world, rank)
    else:
        speaks = not isinstance(error, ReportedElsewhereError) and _is_first(world)
        if speaks:
            print_line(_error_text(error, rank) + _lost(error, world))
            if world is not None:
                world.heartbeat.end_all(code)
        if world is not None and rank == 0:
            _close_connections(world.place.port)
        if not speaks or rank == 0:
            # a launcher ends all with the first that ends, so who speaks must have spoken by then; and the others ask
            # rank 0's store who speaks, whoever it is
            time.sleep(LINGER_S)
        if world is not None and rank == 0:
            _stay_for_others(world)
    sys.stdout.flush()
    os._exit(code)


def _error_text(error: BaseException, rank: int) -> str:
    """An error in one line."""
    if is_broken(error):
        return f"rank {rank}, between two steps: {GONE}"
    if isinstance(error, SimfrontierError):
        return str(error)
    text = str(error).strip()
    return f"rank {rank}: {type(error).__name__}: {text.splitlines()[0] if text else ''}"


def _lost(error: BaseException, world: World | None) -> str:
    """Which ranks give no sign of life, where the error is that a connection broke."""
    if world is None or not (isinstance(error, LostRankError) or is_broken(error)):
        return ""
    try:
        lost = world.heartbeat.silent()
    except RuntimeError:  # the store is gone, and with it the rank that had it
        lost = world.heartbeat.holders()
    return f"; {silent_text(lost)}" if lost else ""


def _close_connections(port_of_store: int) -> None:
    """End this process's connections but the store's. Whoever waits for this rank alone, as in a ring, then learns
    at once that the run is over, while the store can still be asked who speaks."""
    with suppress(OSError):  # where /proc is not, they learn it when this process ends
        for entry in os.listdir("/proc/self/fd"):
            with suppress(OSError), socket.socket(fileno=os.dup(int(entry))) as held:  # not every file is a socket
                if held.family in (socket.AF_INET, socket.AF_INET6) and port_of_store not in (
                    held.getsockname()[1],
                    held.getpeername()[1],
                ):
                    held.shutdown(socket.SHUT_RDWR)


def _is_first(world: World | None) -> bool:
    """Whether no rank has reported yet; where the store is gone, every rank reports."""
    if world is None:
        return True
    try:
        first = int(world.store.add("said", 1)) == 1
    except RuntimeError:  # the store is gone with rank 0: torch's errors of a store are RuntimeErrors
        return True
    with suppress(RuntimeError):
        world.store.add(_asked(world.rank), 1)
    return first


def _stay_for_others(world: World) -> None:
    """Keep this process's store until every rank that is alive has asked who speaks."""
    deadline = time.monotonic() + STAY_S
    with suppress(RuntimeError):  # the store is a launcher's, and gone
        while time.monotonic() < deadline:
            missing = {rank for rank in range(world.size) if not world.store.add(_asked(rank), 0)}
            if not missing or missing.isdisjoint(world.heartbeat.alive()):
                return


def _asked(rank: int) -> str:
    return f"asked/{rank}"


def _print_tables(table: list[str], world: World | None, rank: int) -> None:
    """What each rank runs and waits for; the first rank that is stuck collects and prints."""
    tables: dict[int, list[str]] = {rank: table}
    silent: list[int] = []
    if world is not None:
        try:
            world.store.set(f"stuck/{rank}", json.dumps(table))
            if not _is_first(world):
                time.sleep(COLLECT_S + 1.0)  # the store may be this process: stay until the first has read it
                return
            silent = [each for each in world.heartbeat.silent() if each != rank]
            tables |= _collected(world, rank, silent)
        except RuntimeError as error:  # as above
            print_line(f"the other ranks' tables cannot be had: {type(error).__name__}")
    missing = [] if world is None else [each for each in range(world.size) if each not in tables]
    wordless = [str(each) for each in missing if each not in silent]
    print_line("stuck: no op has ended within the timeout. What each rank runs and waits for:")
    lines = [f"  rank {who}  {line}" for line, who in _by_line(tables)]
    for line in lines[:MAX_LINES]:
        sys.stderr.write(line + "\n")
    if len(lines) > MAX_LINES:
        sys.stderr.write(f"  and {len(lines) - MAX_LINES} more lines\n")
    if wordless:
        sys.stderr.write(f"  no word from rank {', '.join(wordless)}\n")
    if silent:
        sys.stderr.write(f"  {silent_text(silent)}\n")
    sys.stderr.flush()


def _by_line(tables: dict[int, list[str]]) -> list[tuple[str, str]]:
    """Every line once with the ranks that have it; lines of few ranks first."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(tables):
        for line in tables[rank] or ["nothing under way"]:
            ranks.setdefault(line, []).append(rank)
    return [(line, ", ".join(map(str, who))) for line, who in sorted(ranks.items(), key=lambda item: len(item[1]))]


def _collected(world: World, rank: int, silent: list[int]) -> dict[int, list[str]]:
    """The tables of the other ranks; those that give no sign of life are not waited for."""
    deadline = time.monotonic() + COLLECT_S - LOOK_S
    others = [other for other in range(world.size) if other != rank and other not in silent]
    out: dict[int, Any] = {}
    while time.monotonic() < deadline and len(out) < len(others):
        for other in others:
            if other not in out and world.store.check([f"stuck/{other}"]):
                out[other] = json.loads(world.store.get(f"stuck/{other}"))
        time.sleep(0.05)
    return out
