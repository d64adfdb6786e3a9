"""Links on SimPy's clock: every link is a FIFO server that messages pass one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import simpy

from simfrontier.core.network import Server


def at(env: simpy.Environment, time: float, then: Callable[[object], None]) -> None:
    """Call `then` at a time; what is asked for first of the same time is called first."""
    env.timeout(max(0.0, time - env.now)).callbacks.append(then)


def at_end_of_instant(env: simpy.Environment, then: Callable[[], None]) -> None:
    """Call `then` now, after everything else that happens at this time. One caller of a clock at a time: two would
    wait for each other."""
    env.timeout(0).callbacks.append(partial(_look, env, then))


def _look(env: simpy.Environment, then: Callable[[], None], _: object) -> None:
    if env.peek() > env.now:
        then()
    else:
        env.timeout(0).callbacks.append(partial(_look, env, then))


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """The servers from one rank to another, the share of each that a message reaches, and whether it leaves the
    node."""

    servers: tuple[Server, ...]
    shares: tuple[float, ...]
    is_between_nodes: bool

    def count(self, num_bytes: float) -> None:
        """Count bytes on every link of the way without taking up its time."""
        for server in self.servers:
            server.num_bytes += num_bytes


class Transit:
    """One message; `then` is called with the time at which its tail is there, once that is known: never, where a link
    on the way is dead for good."""

    __slots__ = ("env", "num_bytes", "path", "place", "tail_s", "then")

    def __init__(self, env: simpy.Environment, path: Path, num_bytes: float, then: Callable[[float], None]) -> None:
        self.env, self.path, self.num_bytes, self.then = env, path, num_bytes, then
        self.place, self.tail_s = 0, env.now

    def start(self, first: Server | None = None) -> None:
        """Set out now; `first` is passed before the way's own links."""
        if first is None:
            self.go_on()
            return
        head, self.tail_s = first.serve(self.env.now, self.num_bytes, self.tail_s)
        self._wait(head)

    def go_on(self, _: object = None) -> None:
        """Pass links until the head has to wait; links serve messages first come, first served."""
        now, path = self.env.now, self.path
        while self.place < len(path.servers):
            place, self.place = self.place, self.place + 1
            head, self.tail_s = path.servers[place].serve(now, self.num_bytes, self.tail_s, path.shares[place])
            if head > now and self.place < len(path.servers):
                self._wait(head)
                return
        if math.isfinite(self.tail_s):
            self.then(self.tail_s)

    def _wait(self, until: float) -> None:
        if math.isfinite(until):
            at(self.env, until, self.go_on)
