"""Signs of life: every rank counts in the store that all share, and watches another rank count. One that is stopped,
or whose host is, reports nothing itself; the others would wait for it, between two steps for an hour."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

EVERY_S = 0.5
LOOK_S = 3 * EVERY_S  # a rank that does not count meanwhile gives no sign of life
SLACK_S = 2.0  # beyond the run's timeout: stuck ops are reported first, with more details
JOIN_S = 10.0  # for threads that are at a call of the store, on a busy machine
LEFT = -(1 << 40)  # of a rank that has done everything
OVER = "over"  # the exit code of the run, once a rank has reported why it ends


class Heartbeat:
    """This rank's signs of life, and its watch over the next rank's.

    `store`: this rank's own connection to the ranks' store. `holder`: the rank in which the store is, None where the
    launcher has it. The run ends, with one line, when the rank that is watched gives no sign for `limit_s`; only time
    in which this rank runs counts, so that a pause of the whole run is no silence.
    """

    def __init__(self, rank: int, size: int, store: Any, holder: int | None, limit_s: float) -> None:
        self._rank, self._size, self._store, self._holder, self._limit_s = rank, size, store, holder, limit_s
        self._over, self._ends = threading.Event(), False
        self._watched, self._seen, self._round_trips = (rank + 1) % size, 0, 0
        self._threads: list[threading.Thread] = []

    def start(self) -> None:
        """Begin to count and to watch, each in a thread: the store may be what does not answer."""
        if self._size > 1:
            self._threads = [threading.Thread(target=work, daemon=True) for work in (self._count, self._watch)]
            for thread in self._threads:
                thread.start()

    def leave(self) -> None:
        """Mark this rank as finished, so that no rank waits for its signs."""
        if self._size > 1:
            with suppress(RuntimeError):  # the store has gone with rank 0
                self._store.add(_key(self._rank), LEFT)
        self._over.set()
        for thread in self._threads:  # one that is inside torch when the interpreter ends would abort the process
            thread.join(JOIN_S)

    def end_by_itself(self) -> None:
        """Leave it to this rank's own thread to end it, whatever the others report."""
        self._ends = True

    def end_all(self, code: int) -> None:
        """Let every rank end with that exit code, also one whose thread hangs in a call: a connection that is being
        made when the other side ends waits for its timeout."""
        with suppress(RuntimeError):  # the store is gone
            self._store.add(OVER, code)

    def silent(self) -> list[int]:
        """The other ranks that give no sign of life while this one looks. Raises RuntimeError where the store is
        gone."""
        return [rank for rank, was, now in self._look() if was == now >= 0]

    def alive(self) -> list[int]:
        """The other ranks that give a sign of life while this one looks. Raises RuntimeError where the store is
        gone."""
        return [rank for rank, was, now in self._look() if was != now >= 0]

    def holders(self) -> list[int]:
        """The rank in which the store is, if it is in another one."""
        return [] if self._holder is None or self._holder == self._rank else [self._holder]

    def _look(self) -> list[tuple[int, int, int]]:
        """Every other rank with its count now and a little later."""
        before = self._counts()
        time.sleep(LOOK_S)
        pairs = enumerate(zip(before, self._counts(), strict=True))
        return [(rank, was, now) for rank, (was, now) in pairs if rank != self._rank]

    def _counts(self) -> list[int]:
        return [int(self._store.add(_key(rank), 0)) for rank in range(self._size)]

    def _count(self) -> None:
        with suppress(RuntimeError):  # the store is gone: connections report it, or else `_watch` after a while
            while True:
                self._store.add(_key(self._rank), 1)
                code = int(self._store.add(OVER, 0))
                if code and not self._ends:
                    if self._holder == self._rank:
                        time.sleep(LOOK_S)  # the others ask this rank's store too
                    os._exit(code)
                self._seen = int(self._store.add(_key(self._watched), 0))
                if self._seen < 0 and (self._watched + 1) % self._size != self._rank:
                    self._watched = (self._watched + 1) % self._size
                self._round_trips += 1
                if self._over.wait(EVERY_S):
                    return

    def _watch(self) -> None:
        round_trips, last, quiet_s, store_quiet_s = -1, (-1, -1), 0.0, 0.0
        while not self._over.wait(EVERY_S):
            if self._round_trips == round_trips:
                store_quiet_s += EVERY_S
                if self._holder is not None and store_quiet_s >= self._limit_s:
                    self._end_without_store()
                continue
            round_trips, store_quiet_s, now = self._round_trips, 0.0, (self._watched, self._seen)
            quiet_s = quiet_s + EVERY_S if now == last and self._seen >= 0 else 0.0
            last = now
            if quiet_s >= self._limit_s:
                quiet_s = 0.0
                self._end_if_silent()

    def _end_if_silent(self) -> None:
        """Report the ranks without a sign of life and end the run, unless they answer or a rank has reported why."""
        try:
            silent = self.silent()
            if not silent or int(self._store.add("said", 1)) > 1:
                return
        except RuntimeError:  # the store is gone: as for `_count`
            return
        self.end_by_itself()
        print_line(f"{silent_text(silent)} for {self._limit_s:g} s; the run ends")
        self.end_all(1)
        time.sleep(LOOK_S)  # the store may be this process: the others ask it whether the run is over
        os._exit(1)

    def _end_without_store(self) -> None:
        """The store does not answer, so no rank can be asked: the first of the other ranks reports, and each ends."""
        assert self._holder is not None
        if self._rank == min(rank for rank in range(self._size) if rank != self._holder):
            print_line(f"{silent_text([self._holder])} for {self._limit_s:g} s; the run ends")
        os._exit(1)


def silent_text(silent: list[int]) -> str:
    """Which ranks give no sign of life."""
    gives = "gives" if len(silent) == 1 else "give"
    more = f" and {len(silent) - 8} more" if len(silent) > 8 else ""
    return f"rank {', '.join(map(str, silent[:8]))}{more} {gives} no sign of life (stopped, or lost with its host)"


def _key(rank: int) -> str:
    return f"alive/{rank}"


def print_line(line: str) -> None:
    """One line for a person, at once."""
    sys.stderr.write(f"simfrontier-real: {line}\n")
    sys.stderr.flush()
