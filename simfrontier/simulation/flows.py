"""The clock of the engine: SimPy's, timers that share instants, and flows at max-min fair rates.

At every instant all that ends is ended, all that may start is started, and only then are rates solved once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import simpy

from simfrontier.cost import Cluster, OpWork
from simfrontier.network import solve
from simfrontier.simulation.transit import at_end_of_instant

INSTANT_S = 1e-12  # events closer than this are one instant
RESOLUTION = 1e-15  # relative: after hours of simulated time the clock itself cannot tell events this close apart
LEAST_UNITS = 1.0  # assumed: compute units of a device that calls leave to kernels however many run
Memo = dict[tuple[int, ...], dict[int, float]]  # rates by the set of flows that run


@dataclass(slots=True, eq=False)
class RunningFlow:
    """A flow under way: how much of its amount is left, and at what rate it goes; `then` goes on when it ends."""

    left: float
    flow: int
    op: Any
    group: int
    rate: float = 0.0
    then: RunningFlow | None = None


class FlowEvents(ABC):
    """What is under way: works that are begun come back by `_finish` when they end; whoever inherits says what an op
    and a group are."""

    def __init__(self, cluster: Cluster, memo: Memo | None = None) -> None:
        self.cluster = cluster
        self.running: list[RunningFlow] = []
        self.memo: Memo = {} if memo is None else memo
        self.env = simpy.Environment()
        self.timers: dict[tuple[float, bool], list[Any]] = {}
        self.timers_at = -1.0
        self.ended: list[tuple[Any, int]] = []
        self.woken: list[RunningFlow] = []
        self.settled_at = 0.0
        self.due = -1.0  # when the first of what runs ends
        self.settling_at = -1.0

    @abstractmethod
    def _finish(self, ended: list[tuple[Any, int]]) -> None:
        """Say that (op, group)s have ended now, and start what may start."""

    @abstractmethod
    def _settled(self) -> None:
        """Called when nothing more ends at this instant, before rates are set."""

    def _begin(self, work: OpWork, op: Any, group: int) -> None:
        if work.amount <= 0.0:
            self._after(work.latency_s, (op, group), self.ended)
        else:
            flow = RunningFlow(work.amount, work.flow, op, group)
            if work.starting >= 0:  # seconds, at one per second
                self.woken.append(RunningFlow(work.latency_s, work.starting, op, group, then=flow))
            elif work.latency_s > 0.0:
                self._after(work.latency_s, flow, self.woken)
            else:
                self.woken.append(flow)

    def _after(self, delay: float, what: Any, where: list[Any]) -> None:
        """Put `what` into the list `where` after a delay; equal delays from the same instant share one timer."""
        now = self.env.now
        if now != self.timers_at:
            self.timers_at = now
            self.timers.clear()
        key = (delay, where is self.woken)
        if key not in self.timers or delay == 0.0:
            timed = self.timers[key] = []
            self._wake(delay, lambda _: where.extend(timed))
        self.timers[key].append(what)

    def _wake(self, delay: float, then: Callable[[object], None]) -> None:
        timer = self.env.timeout(delay)
        assert timer.callbacks is not None
        timer.callbacks.append(then)
        timer.callbacks.append(self._settle_soon)

    def _settle_soon(self, _: object = None) -> None:
        """Settle once, after everything else that happens at this time."""
        if self.settling_at != self.env.now:
            self.settling_at = self.env.now
            at_end_of_instant(self.env, self._settle)

    def _settle(self, _: object) -> None:
        now = self.env.now
        self.settling_at = -1.0
        self._advance(now)
        while self.ended:
            ended = list(self.ended)
            self.ended.clear()
            self._finish(ended)
        self._settled()
        self.running += self.woken
        self.woken.clear()
        if self.running:
            self._go_on()

    def _go_on(self) -> None:
        """Set the rates of what runs now, and come back when the first of it ends."""
        self._set_rates()
        first_s = min([flow.left / flow.rate for flow in self.running])
        self.due = self.env.now + first_s
        self._wake(first_s, _nothing)

    def _advance(self, now: float) -> None:
        elapsed = now - self.settled_at
        instant = max(INSTANT_S, now * RESOLUTION)
        self.settled_at = now
        kept = []
        for flow in self.running:
            flow.left -= flow.rate * elapsed
            if flow.left > flow.rate * instant:
                kept.append(flow)
            elif flow.then is not None:
                self.woken.append(flow.then)
            else:
                self.ended.append((flow.op, flow.group))
        self.running = kept

    def _set_rates(self) -> None:
        self._rate(self.running)

    def _rate(self, flows: list[RunningFlow]) -> None:
        """Set the rates of flows that share links with no others."""
        key = tuple(sorted([flow.flow for flow in flows]))
        rates = self.memo.get(key)
        if rates is None:
            rates = self.memo[key] = self._solve(key)
        for flow in flows:
            flow.rate = rates[flow.flow]

    def _solve(self, key: tuple[int, ...]) -> dict[int, float]:
        flows = [self.cluster.flows[number] for number in key]
        rows = np.unique(np.concatenate([flow.rows for flow in flows]))
        usage, held = np.zeros((len(rows), len(flows))), np.zeros(len(rows))
        for column, flow in enumerate(flows):
            at = np.searchsorted(rows, flow.rows)
            usage[at, column] = flow.load
            held[at] += flow.reserved
        capacity = self.cluster.folding.capacity[rows]
        # Kernels share what is not held. Where calls ask for all units together, one is left, so that nothing stands
        # still: a workgroup of a kernel finds room as soon as one of a call ends.
        free = np.where(held > 0.0, np.maximum(capacity - held, np.minimum(capacity, LEAST_UNITS)), capacity)
        caps = np.array([flow.cap for flow in flows])
        rates = solve(usage, free, np.ones(len(flows)), caps)
        return dict(zip(key, rates.tolist(), strict=True))


def _nothing(_: object) -> None:
    """A timer that only makes the engine settle."""
