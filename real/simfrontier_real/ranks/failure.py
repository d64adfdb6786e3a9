"""Termination of a failed run: one rank prints the reason (if ranks are stuck, with a table of all ranks), and all
ranks exit."""

from __future__ import annotations

import json
import os
import sys
import time
from contextlib import suppress
from typing import NoReturn

from simfrontier.base.errors import SimfrontierError
from simfrontier_real.ops.executor import GONE, StuckError, is_broken
from simfrontier_real.ranks.world import LINGER_S, LostRankError, ReportedElsewhereError, World

COLLECT_S = 6.0  # how long the tables of other ranks are waited for; on a busy host they get stuck seconds apart
MAX_LINES = 40


def end_run(error: BaseException, world: World | None, rank: int) -> NoReturn:
    """Report an error (one rank reports for all) and exit with its exit code, even if other threads are still
    running."""
    if isinstance(error, StuckError):
        _print_tables(error.table, world, rank)
    else:
        if is_broken(error) or isinstance(error, LostRankError):
            time.sleep(LINGER_S / 3)  # a launcher knows which rank has ended, and ends this one meanwhile
        is_first = not isinstance(error, ReportedElsewhereError) and _is_first(world)
        if is_first:
            print_line(_error_text(error, rank))
        if world is not None and (not is_first or rank == 0):
            time.sleep(LINGER_S)  # the store may be rank 0's, and the others still ask it who reports
    sys.stdout.flush()
    os._exit(getattr(error, "exit_code", 1))


def print_line(line: str) -> None:
    """Print one line to stderr and flush it."""
    sys.stderr.write(f"simfrontier-real: {line}\n")
    sys.stderr.flush()


def _error_text(error: BaseException, rank: int) -> str:
    """Return an error as one line of text."""
    if is_broken(error):
        return f"rank {rank}, between two steps: {GONE}"
    if isinstance(error, SimfrontierError):
        return str(error)
    text = str(error).strip()
    return f"rank {rank}: {type(error).__name__}: {text.splitlines()[0] if text else ''}"


def _is_first(world: World | None) -> bool:
    """Return whether no other rank has reported yet; True if the store is gone, so that every rank then reports."""
    if world is None:
        return True
    try:
        return int(world.store.add("reports", 1)) == 1
    except RuntimeError:  # as torch's errors of a store are
        return True


def _print_tables(table: list[str], world: World | None, rank: int) -> None:
    """Print the ops that each rank is running and those it waits for; the first stuck rank collects the tables of all
    ranks."""
    tables: dict[int, list[str]] = {rank: table}
    size = 1 if world is None else world.size
    if world is not None:
        with suppress(RuntimeError):  # the store is gone
            world.store.set(f"stuck/{rank}", json.dumps(table))
            if not _is_first(world):
                time.sleep(COLLECT_S + 1.0)  # the store may be this process: stay until the first has read it
                return
            tables |= _collected(world, rank)
    print_line("stuck: no op has ended within the timeout. What each rank runs and waits for:")
    lines = [f"  rank {who}  {line}\n" for line, who in _by_line(tables)]
    if len(lines) > MAX_LINES:
        lines[MAX_LINES:] = [f"  and {len(lines) - MAX_LINES} more lines\n"]
    missing = [str(each) for each in range(size) if each not in tables]
    if missing:
        lines.append(f"  no word from rank {', '.join(missing)} (stopped, or lost with its host)\n")
    sys.stderr.write("".join(lines))
    sys.stderr.flush()


def _by_line(tables: dict[int, list[str]]) -> list[tuple[str, str]]:
    """Return each distinct line once with the ranks that have it, lines of the fewest ranks first."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(tables):
        for line in tables[rank] or ["nothing under way"]:
            ranks.setdefault(line, []).append(rank)
    return [(line, ", ".join(map(str, who))) for line, who in sorted(ranks.items(), key=lambda item: len(item[1]))]


def _collected(world: World, rank: int) -> dict[int, list[str]]:
    """Return the tables of the other ranks that arrive in time."""
    deadline = time.monotonic() + COLLECT_S
    waiting = {other for other in range(world.size) if other != rank}
    out: dict[int, list[str]] = {}
    while waiting and time.monotonic() < deadline:
        for other in [each for each in waiting if world.store.check([f"stuck/{each}"])]:
            out[other] = json.loads(world.store.get(f"stuck/{other}"))
            waiting.remove(other)
        time.sleep(0.05)
    return out
