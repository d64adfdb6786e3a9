"""The engine: SimPy's clock, one issuer per rank class, and flows at max-min fair rates.

At every instant all that ends is ended, all that may start is started, and only then are rates solved once. Ops of a
rank class stand for those of all its ranks; with an exact folding every rank is a class.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from simfrontier.errors import SimfrontierError
from simfrontier.network import solve
from simfrontier.schedule.expand import Expanded
from simfrontier.schedule.issuer import Issuer, ops_by_lane
from simfrontier.simulate.pricing import Cluster, Work
from simfrontier.simulate.timeline import Timeline

INSTANT_S = 1e-12  # events closer than this are one instant
RESOLUTION = 1e-15  # relative: after hours of simulated time the clock itself cannot tell events this close apart
_LAST = 2  # after SimPy's urgent (0) and normal (1) events of the same time


def simulate(program: Expanded, cluster: Cluster) -> Timeline:
    """Run one step (fidelity `flow`)."""
    return _Engine(program, cluster).run()


@dataclass(slots=True)
class _Running:
    left: float
    flow: int
    op: int
    group: int
    rate: float = 0.0


@dataclass(slots=True)
class _Info:
    """What the engine needs of one op: its works and groups by activity class."""

    works: tuple[Work, ...]
    group_of: list[int]
    members: tuple[tuple[int, ...], ...]


@dataclass
class _Engine:
    program: Expanded
    cluster: Cluster
    running: list[_Running] = field(default_factory=list)
    memo: dict[tuple[int, ...], dict[int, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        folding = self.cluster.folding
        self.env = simpy.Environment()
        num = folding.num_rank_classes
        by_lane = ops_by_lane(self.program)
        self.issuers = [Issuer(self.program, by_lane) for _ in range(num)]
        self.ready = [[0.0] * self.program.num_ops for _ in range(num)]
        self.start = [[0.0] * self.program.num_ops for _ in range(num)]
        self.end = [[0.0] * self.program.num_ops for _ in range(num)]
        groups = {
            key: (folding.activity_of(key).tolist(), tuple(tuple(sorted(m)) for m in folding.members(key)))
            for key in self.cluster.patterns
        }
        known: dict[int, _Info] = {}
        self.infos: list[_Info] = []
        for op in self.program.ops:
            info = known.get(id(op))
            if info is None:
                priced = self.cluster.of(op)
                info = known[id(op)] = _Info(priced.works, *groups[priced.pattern])
            self.infos.append(info)
        self.arrived: dict[tuple[int, int], int] = {}
        self.timers: dict[tuple[float, int], list[Any]] = {}
        self.timers_at = -1.0
        self.ended: list[tuple[int, int]] = []
        self.woken: list[_Running] = []
        self.settled_at = 0.0
        self.settling_at = -1.0

    def run(self) -> Timeline:
        self._start_all(range(len(self.issuers)))
        self._settle_soon()
        self.env.run()
        if not all(issuer.is_finished for issuer in self.issuers):
            raise SimfrontierError(self._stuck())
        times = (np.array(table, float) for table in (self.ready, self.start, self.end))
        ready, start, end = times
        return Timeline(ready=ready, start=start, end=end, num_solves=len(self.memo))

    def _stuck(self) -> str:
        lines = []
        for number, issuer in enumerate(self.issuers):
            for op, lacking in issuer.blocked():
                waits = ", ".join(f"{lane} {done}/{needed}" for lane, done, needed in lacking)
                lines.append(f"rank class {number}: {self.program.ops[op].name} waits for {waits}")
        return "the simulated step is stuck: " + "; ".join(lines[:8])

    # ── starting ──

    def _start_all(self, classes: range | list[int]) -> None:
        now = self.env.now
        for number in classes:
            ready = self.ready[number]
            for op in self.issuers[number].startable():
                info = self.infos[op]
                ready[op] = now
                group = info.group_of[number]
                members = info.members[group]
                if len(members) > 1:
                    count = self.arrived.get((op, group), 0) + 1
                    if count < len(members):
                        self.arrived[op, group] = count
                        continue
                    self.arrived.pop((op, group), None)
                for member in members:
                    self.start[member][op] = now
                self._begin(info.works[group], op, group)

    def _begin(self, work: Work, op: int, group: int) -> None:
        if work.amount <= 0.0:
            self._after(work.latency_s, (op, group), self.ended)
        else:
            flow = _Running(work.amount, work.flow, op, group)
            if work.latency_s > 0.0:
                self._after(work.latency_s, flow, self.woken)
            else:
                self.woken.append(flow)

    def _after(self, delay: float, what: Any, where: list[Any]) -> None:
        """Put `what` into the list `where` after a delay; equal delays from the same instant share one timer."""
        now = self.env.now
        if now != self.timers_at:
            self.timers_at = now
            self.timers.clear()
        key = (delay, id(where))
        if key not in self.timers or delay == 0.0:
            timed = self.timers[key] = []
            self._wake(delay, lambda _: where.extend(timed))
        self.timers[key].append(what)

    def _wake(self, delay: float, then: Callable[[object], None]) -> None:
        timer = self.env.timeout(delay)
        assert timer.callbacks is not None
        timer.callbacks.append(then)
        timer.callbacks.append(self._settle_soon)

    # ── one instant ──

    def _settle_soon(self, _: object = None) -> None:
        """Settle once, after everything else that happens at this time."""
        if self.settling_at != self.env.now:
            self.settling_at = self.env.now
            event = simpy.Event(self.env)
            event._ok, event._value = True, None
            assert event.callbacks is not None
            event.callbacks.append(self._settle)
            self.env.schedule(event, priority=_LAST)  # type: ignore[arg-type]

    def _settle(self, _: object) -> None:
        now = self.env.now
        self.settling_at = -1.0
        self._advance(now)
        while self.ended:
            ended = list(self.ended)
            self.ended.clear()
            touched: dict[int, None] = {}
            for op, group in ended:
                for member in self.infos[op].members[group]:
                    self.end[member][op] = now
                    self.issuers[member].finish(op)
                    touched[member] = None
            self._start_all(sorted(touched))
        self.running += self.woken
        self.woken.clear()
        if self.running:
            self._set_rates()
            self._wake(min([flow.left / flow.rate for flow in self.running]), _nothing)

    def _advance(self, now: float) -> None:
        elapsed = now - self.settled_at
        instant = max(INSTANT_S, now * RESOLUTION)
        self.settled_at = now
        kept = []
        for flow in self.running:
            flow.left -= flow.rate * elapsed
            if flow.left <= flow.rate * instant:
                self.ended.append((flow.op, flow.group))
            else:
                kept.append(flow)
        self.running = kept

    def _set_rates(self) -> None:
        key = tuple(sorted(flow.flow for flow in self.running))
        rates = self.memo.get(key)
        if rates is None:
            rates = self.memo[key] = self._solve(key)
        for flow in self.running:
            flow.rate = rates[flow.flow]

    def _solve(self, key: tuple[int, ...]) -> dict[int, float]:
        flows = [self.cluster.flows[number] for number in key]
        rows = np.unique(np.concatenate([flow.rows for flow in flows]))
        usage = np.zeros((len(rows), len(flows)))
        for column, flow in enumerate(flows):
            usage[np.searchsorted(rows, flow.rows), column] = flow.load
        caps = np.array([flow.cap for flow in flows])
        rates = solve(usage, self.cluster.folding.capacity[rows], np.ones(len(flows)), caps)
        return dict(zip(key, rates.tolist(), strict=True))


def _nothing(_: object) -> None:
    """A timer that only makes the engine settle."""
