"""Event loop of the engine: SimPy's clock, with timers shared by events of the same instant, and flows at max-min fair
rates.

At every instant all items that are due end, then all items that may start are started, and only then are rates solved,
for the flows that share links with an item that ended or started; the other flows continue at their rates.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from heapq import heappop, heappush
from math import inf
from typing import Any

import simpy

from simfrontier.core.cost import OpWork
from simfrontier.core.engine.flow_rates import FlowRates

MOST_TOGETHER = 24  # up to this number, flows that change at once form one set, even if they share no links
INSTANT_S = 1e-12  # events closer than this are one instant
RESOLUTION = 1e-15  # relative: after hours of simulated time the clock itself cannot tell events this close apart


def at(env: simpy.Environment, time: float, then: Callable[[object], None]) -> None:
    """Call `then` at a time; callbacks for the same time are called in the order in which they were requested."""
    env.timeout(max(0.0, time - env.now)).callbacks.append(then)


def at_end_of_instant(env: simpy.Environment, then: Callable[[], None]) -> None:
    """Call `then` at the current time, after all other events of this time. Only one caller per clock may use this at a
    time: two callers would wait for each other."""
    env.timeout(0).callbacks.append(partial(_look, env, then))


def _look(env: simpy.Environment, then: Callable[[], None], _: object) -> None:
    if env.peek() > env.now:
        then()
    else:
        env.timeout(0).callbacks.append(partial(_look, env, then))


@dataclass(slots=True, eq=False)
class RunningFlow:
    """Flow in progress: its remaining amount, its rate, and the flow `then`, which starts when this flow ends."""

    left: float
    flow: int
    op: Any
    rate: float = 0.0
    then: RunningFlow | None = None


@dataclass(slots=True, eq=False)
class _Sharing:
    """Set of flows that share no links with flows outside the set: the bit mask of the links that the flows load, and
    the time `since` which the flows have their current rates; their remaining amounts are those at that time."""

    load: int
    flows: list[RunningFlow]
    since: float


@dataclass(frozen=True, slots=True)
class Remaining:
    """Item in progress and the seconds until its next event: the end of a running flow (`is_running`), the begin of a
    flow after its latency, or the end of an op."""

    what: Any
    is_running: bool
    seconds: float


class FlowEvents(ABC):
    """Event loop of works in progress. When the work of an op ends, the op is passed to `_finish`; subclasses define
    what an op is."""

    def __init__(self, rates: FlowRates) -> None:
        self.rates = rates
        self.env = simpy.Environment()
        self.timers: dict[float, list[Any]] = {}  # by time: flows that begin then, and ops that end then
        self.ended: list[Any] = []
        self.woken: list[RunningFlow] = []  # that begin now
        self.loose: list[RunningFlow] = []  # that need new rates now
        self.sharing: dict[_Sharing, None] = {}
        self.dues: list[tuple[float, int, _Sharing]] = []  # heap: first end in each set, stopped ones too
        self.num_shared = 0
        self.due = -1.0  # when the first running flow ends
        self.still: list[Any] = []  # ops that cannot begin before the machine changes to another state
        self.settling = False

    @abstractmethod
    def _finish(self, ended: list[Any]) -> None:
        """Record that these ops have ended now, and start the ops that may start as a consequence."""

    @abstractmethod
    def _settled(self) -> None:
        """Hook called when no more ops end at this instant, before rates are set."""

    def _changed(self, edge: float) -> bool:
        """Switch the machine and all items in progress to the next machine state if that state begins by `edge`; return
        whether the state changed."""
        return False

    def _begin(self, work: OpWork, op: Any) -> None:
        if work.stands_still:
            self.still.append(op)
            return
        if work.amount <= 0.0:
            self._after(work.latency_s, op)
            return
        flow = RunningFlow(work.amount, work.flow, op)
        if work.starting >= 0:  # seconds, at one per second
            self.woken.append(RunningFlow(work.latency_s, work.starting, op, then=flow))
        elif work.latency_s > 0.0:
            self._after(work.latency_s, flow)
        else:
            self.woken.append(flow)

    def _after(self, delay: float, what: Any) -> None:
        """Begin a flow or end an op after a delay; items due at the same time share one timer."""
        when = self.env.now + delay
        waiting = self.timers.get(when)
        if waiting is None:
            self.timers[when] = [what]
            self.env.timeout(delay).callbacks.append(self._ring)
        else:
            waiting.append(what)

    def _ring(self, _: object) -> None:
        for what in self.timers.pop(self.env.now):
            if isinstance(what, RunningFlow):
                self.woken.append(what)
            else:
                self.ended.append(what)
        self._settle_soon()

    def _settle_soon(self, _: object = None) -> None:
        """Schedule `_settle` once, after all other events of this time; call it immediately if there are no other
        events. Must be the last action of a callback."""
        if self.settling:
            return
        if self.env.peek() > self.env.now:
            self._settle()
        else:
            self.settling = True
            at_end_of_instant(self.env, self._settle)

    def _settle(self) -> None:
        self.settling = False
        now = self.env.now
        edge = now + max(INSTANT_S, now * RESOLUTION)
        self._stop_due(edge)
        self._end_all()
        while self._changed(edge):
            self._end_all()
        if self.woken:
            self._join()
        if self.loose:
            self._go_on()
        if self.sharing:
            self._come_back()

    def _end_all(self) -> None:
        """Finish the ops that have ended, and the ops that end at this instant as a consequence."""
        while self.ended:
            ended, self.ended = self.ended, []
            self._finish(ended)
        self._settled()

    def under_way(self, load: int) -> bool:
        """Return whether any flow that is in progress or begins now loads any of these links (a bit mask)."""
        load_of = self.rates.load
        return any(load & sharing.load for sharing in self.sharing) or any(
            load & load_of(flow.flow) for flow in (*self.loose, *self.woken)
        )

    def remaining(self) -> list[Remaining]:
        """Return all items in progress. The rates of all flows must be set."""
        now = self.env.now
        return [
            Remaining(flow, True, (flow.left / flow.rate if flow.rate else inf) - (now - sharing.since))
            for sharing in self.sharing
            for flow in sharing.flows
        ] + [Remaining(what, False, when - now) for when, waiting in self.timers.items() for what in waiting]

    def _stop(self, sharing: _Sharing) -> None:
        """Advance the flows of a set to the current time; flows that have not ended need a new rate."""
        del self.sharing[sharing]
        now = self.env.now
        elapsed, instant = now - sharing.since, max(INSTANT_S, now * RESOLUTION)
        for flow in sharing.flows:
            flow.left -= flow.rate * elapsed
            if flow.left > flow.rate * instant:
                self.loose.append(flow)
            elif flow.then is not None:
                self.woken.append(flow.then)
            else:
                self.ended.append(flow.op)

    def _stop_due(self, edge: float) -> None:
        """Stop the sets of flows in which a flow ends by `edge`, in the order in which the sets were formed."""
        due = []
        while self.dues and self.dues[0][0] <= edge:
            due.append(heappop(self.dues)[1:])
        for _, sharing in sorted(due):
            if sharing in self.sharing:
                self._stop(sharing)

    def _join(self) -> None:
        """Mark the flows that begin now, and all flows that share links with them, as needing new rates."""
        load = 0
        for flow in self.woken:
            load |= self.rates.load(flow.flow)
        self.loose += self.woken
        self.woken = []
        for sharing in [each for each in self.sharing if each.load & load]:
            self._stop(sharing)

    def _come_back(self) -> None:
        """Schedule the next call of `_settle` at the time when the first flow ends."""
        while self.dues[0][2] not in self.sharing:
            heappop(self.dues)
        due = self.dues[0][0]
        if due != self.due and due < inf:
            self.due = due
            self.env.timeout(due - self.env.now).callbacks.append(self._settle_soon)

    def _go_on(self) -> None:
        """Set the rates of the flows that need new ones."""
        loose, self.loose = self.loose, []
        apart = self.rates.apart(tuple(sorted([flow.flow for flow in loose])))
        for flow in loose:
            flow.rate = apart.rates[flow.flow][1]
        sets = [loose]
        if len(loose) > MOST_TOGETHER:
            sets = [[] for _ in apart.loads]
            for flow in loose:
                sets[apart.rates[flow.flow][0]].append(flow)
        now = self.env.now
        for number, flows in enumerate(sets):
            load = apart.loads[number] if len(sets) > 1 else apart.load
            due = now + min([flow.left / flow.rate if flow.rate else inf for flow in flows])
            self.num_shared += 1
            sharing = _Sharing(load, flows, now)
            self.sharing[sharing] = None
            heappush(self.dues, (due, self.num_shared, sharing))
