"""Fidelity `chunk`: every message of every collective is an event, and each link serves messages one after the other.

Every rank has one issuer, which issues the ops of its role's program. A collective is simulated as the transfers to
which it is lowered, an exchange as one message in each direction. A transfer may start when the transfers on which it
depends have arrived, when the previous transfer between the same two ranks has started, and when both ranks have issued
the call and have finished the call's previous message. The arrival time of a transfer follows from the links and from
the library's law for single messages (`StepLaw`). Local work of a rank takes the time that it takes without contention,
and messages load wires only, not memory or compute units. A call with measured times takes the measured time as a
whole, from the moment when all its ranks have issued it; only its bytes are counted on the links.

Links may change within the step: a message being served continues at the new rate, and at rate 0 waits until the link
is back. Messages are not rerouted.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import simpy
from numpy.typing import NDArray

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.cost import Pricing
from simfrontier.core.engine.calls import CallPlan, CallPlans, MessagePlan, Transit
from simfrontier.core.engine.flows import at, at_end_of_instant
from simfrontier.core.engine.step_path import number_nodes
from simfrontier.core.engine.stops import JobStopsError, blocked_lines, messages_stop
from simfrontier.core.engine.timeline import RoleTimeline, Timeline
from simfrontier.core.network import ResourceKind, Server, dead_wires
from simfrontier.core.program import Collective, Compute, Exchange, ExpandedProgram, Issuer, Op, SegmentedProgram

MAX_RANKS = 128


def chunked(
    parts: Sequence[SegmentedProgram], pricing: Pricing, later: Sequence[tuple[float, Pricing]] = ()
) -> tuple[tuple[RoleTimeline, ...], NDArray[np.float64]]:
    """Simulate one step of a pricing without folding of ranks; every op is a program node. Return the times of each
    role, and the bytes that each link carried [num_links]. `later`: pricings of later machine states, each with the
    time in seconds from which it applies. Raises InputError if anything but links changes within the step, and
    JobStopsError if a message would pass a link that is permanently dead."""
    assert pricing.folding.num_rank_classes == pricing.fabric.num_ranks, "every rank by itself: price(..., exact=True)"
    if later:
        _refuse_changes(pricing, [each for _, each in later])
    return _Engine(parts, pricing, later).run()


def _refuse_changes(pricing: Pricing, later: Iterable[Pricing]) -> None:
    """Raise InputError unless only links change between the machine states: this fidelity takes the times of local
    work, and the message laws that depend on link rates, from one state."""
    library, fabric = pricing.library, pricing.fabric
    if library.paced or library.tables:
        why = "paces its messages by the links' rates" if library.paced else "has measured times of whole calls"
        raise InputError(
            f"fidelity chunk with links that change within a step: library {library.name} {why}; "
            "allowed: a library of messages alone, e.g. transfers, or fidelity flow"
        )
    fixed = fabric.kind != ResourceKind.WIRE
    for each in later:
        same_speed = np.array_equal(each.fabric.speed, fabric.speed)
        if not same_speed or not np.array_equal(each.fabric.capacity[fixed], fabric.capacity[fixed]):
            raise InputError(
                "fidelity chunk: got a device or a memory that changes within a step; allowed: links, nics and pools "
                "(fidelity flow: all)",
                key=("perturbation",),
            )


def refuse_many(num_ranks: int) -> None:
    """Raise InputError if the job has more than 128 ranks: every message is an event, so the job has to be small."""
    if num_ranks > MAX_RANKS:
        raise InputError(
            f"fidelity chunk: got {num_ranks} ranks; allowed: up to {MAX_RANKS} (fidelity flow runs jobs of any size)"
        )


class _Message:
    """One message of a collective call in progress: the number of events for which each transfer still waits, and the
    number of transfers that each rank of the group has yet to finish."""

    __slots__ = ("caps", "left", "needs", "number", "plan", "under_way", "waiting")

    def __init__(self, plan: MessagePlan, number: int) -> None:
        form = plan.form
        self.plan, self.number = plan, number
        self.needs = list(form.needs)
        self.left = [len(mine) for mine in form.of_member]
        self.under_way: dict[tuple[int, bool], int] = {}
        self.waiting: dict[tuple[int, bool], deque[int]] = {}
        self.caps: dict[tuple[int, int], Server] = {}

    def settle(self, indices: Iterable[int]) -> list[int]:
        """Decrement the number of outstanding events of each of these transfers; return the transfers that now wait for
        nothing."""
        needs, ready = self.needs, []
        for index in indices:
            needs[index] -= 1
            if not needs[index]:
                ready.append(index)
        return ready

    def may_go(self, index: int) -> bool:
        """Return whether a transfer may be sent now; if not, queue the transfer until fewer messages of its sender are
        in flight."""
        if self.plan.most_at_once is None:
            return True
        place = self._place(index)
        if self.under_way.get(place, 0) >= self.plan.most_at_once:
            self.waiting.setdefault(place, deque()).append(index)
            return False
        self.under_way[place] = self.under_way.get(place, 0) + 1
        return True

    def next_after(self, index: int) -> list[int]:
        """Return the queued transfers that may be sent because the transfer `index` is no longer in flight."""
        if self.plan.most_at_once is None:
            return []
        place = self._place(index)
        self.under_way[place] -= 1
        return [self.waiting[place].popleft()] if self.waiting.get(place) else []

    def _place(self, index: int) -> tuple[int, bool]:
        """Return the key under which messages in flight are counted: messages sent by a device are counted separately
        inside and outside the node; messages sent by a host are all counted together."""
        far = self.plan.paths[index].is_between_nodes and not self.plan.is_host
        return self.plan.form.src[index], far

    def cap(self, index: int) -> Server | None:
        """Return the server that models the library's cap on a rank's sending rate, which a transfer passes before its
        links; None if the library has no cap."""
        rate, end = self.plan.cap_bytes_per_s, (self.plan.form.src[index], self.plan.form.channel[index])
        if math.isinf(rate):
            return None
        if end not in self.caps:
            self.caps[end] = Server(bytes_per_s=rate)
        return self.caps[end]


@dataclass(slots=True)
class _Call:
    """One collective call of one group, or one exchange of one pair: the number of ranks that have issued it, and the
    messages that have begun. `key`: the call's number among the program nodes of all roles."""

    key: int
    group: int
    planned: CallPlan
    num_joined: int = 0
    num_left: int = 0
    messages: list[_Message] = field(default_factory=list)


class _Engine:
    def __init__(
        self, parts: Sequence[SegmentedProgram], pricing: Pricing, later: Sequence[tuple[float, Pricing]]
    ) -> None:
        self.parts, self.pricing = parts, pricing
        self.last = later[-1][1] if later else pricing
        self.nodes = number_nodes(parts, [pricing] * len(parts))
        self.env = simpy.Environment()
        self.calls = CallPlans(pricing, [(begin_s, each.fabric) for begin_s, each in later])
        self.packets = pricing.machine.packets
        self.role_of: list[int] = pricing.role_of.tolist()
        num = len(self.role_of)
        self.programs: list[ExpandedProgram] = [parts[role].program for role in self.role_of]
        self.issuers = [Issuer(parts[role].program) for role in self.role_of]
        self.ready, self.start, self.end = (
            [[0.0] * self.programs[rank].num_ops for rank in range(num)] for _ in range(3)
        )
        self.running: dict[tuple[int, int], _Call] = {}
        self.pending: dict[_Message, tuple[_Call, list[int]]] = {}
        distinct = {op.number: op for part in parts for op in part.program.ops if isinstance(op, Compute)}
        self.alone_s = {number: self._alone_s(op) for number, op in distinct.items()}

    def run(self) -> tuple[tuple[RoleTimeline, ...], NDArray[np.float64]]:
        for rank in range(len(self.issuers)):
            self._start_ready(rank)
        self.env.run()
        if not all(issuer.is_finished for issuer in self.issuers):
            raise self._job_stops() or SimfrontierError(self._stuck())
        result = tuple(self._role_timeline(role) for role in range(len(self.parts)))
        return result, np.array([server.num_bytes for server in self.calls.servers])

    def _role_timeline(self, role: int) -> RoleTimeline:
        ranks = tuple(rank for rank, its_role in enumerate(self.role_of) if its_role == role)
        ready, start, end = (np.array([table[rank] for rank in ranks]) for table in (self.ready, self.start, self.end))
        timeline = Timeline(ready=ready, start=start, end=end)
        return RoleTimeline(segmented=self.parts[role], classes=ranks, timeline=timeline, by_class={}, by_node={})

    def _job_stops(self) -> JobStopsError | None:
        """Return the error that names the calls waiting for a permanently dead link; None if no call does."""
        servers = self.calls.servers
        dead = {id(servers[link]): link for link in np.flatnonzero(dead_wires(self.last.fabric)).tolist()}
        waiting = [
            (call, {id(each) for each in _servers(call.planned)} & dead.keys()) for call in self.running.values()
        ]
        standing = [(call, passed) for call, passed in waiting if passed]
        if not standing:
            return None
        ranks = np.unique([rank for call, _ in standing for rank in call.planned.ranks])
        links = np.unique([dead[each] for _, passed in standing for each in passed])
        op = self._op(standing[0][0], standing[0][0].planned.ranks[0])
        return messages_stop(self.last, op, ranks, links, self.env.now)

    def _stuck(self) -> str:
        lines = []
        for rank, issuer in enumerate(self.issuers):
            lines += blocked_lines(f"rank {rank}", issuer, self.programs[rank].ops)
        names = dict.fromkeys(self._op(call, call.planned.ranks[0]).name for call in self.running.values())
        lines += [f"{name} is under way" for name in names]
        return "the simulated step is stuck: " + "; ".join(lines[:8])

    def _alone_s(self, op: Op) -> list[float]:
        """Return the time that a local op takes without contention, for each rank."""
        priced = self.pricing.of(op)
        return [priced.works[own].alone_s for own in self.pricing.folding.activity_of(priced.pattern).tolist()]

    # ── ops ──

    def _start_ready(self, rank: int) -> None:
        now, ops = self.env.now, self.programs[rank].ops
        for index in self.issuers[rank].startable():
            op = ops[index]
            self.ready[rank][index] = now
            if isinstance(op, Compute):
                self.start[rank][index] = now
                at(self.env, now + self.alone_s[op.number][rank], partial(self._finish, rank, index))
            else:
                self._join(rank, index, op)

    def _finish(self, rank: int, index: int, _: object = None) -> None:
        self.end[rank][index] = self.env.now
        self.issuers[rank].finish(index)
        self._start_ready(rank)

    def _index(self, call: _Call, rank: int) -> int:
        return self.nodes.node(call.key, self.role_of[rank])

    def _op(self, call: _Call, rank: int) -> Op:
        return self.programs[rank].ops[self._index(call, rank)]

    def _join(self, rank: int, index: int, op: Collective | Exchange) -> None:
        group, member = self.calls.place(op, rank)
        key = self.nodes.keys[self.role_of[rank]][index]
        if (key, group) not in self.running:
            self.running[key, group] = _Call(key=key, group=group, planned=self.calls.planned(op, group))
        call = self.running[key, group]
        planned = call.planned
        call.num_joined += 1
        if call.num_joined == len(planned.ranks):
            for other in planned.ranks:
                self.start[other][self._index(call, other)] = self.env.now
            if planned.measured_s is not None:
                self.calls.count(planned)
                at(self.env, self.env.now + planned.measured_s, partial(self._finish_all, call))
        if planned.measured_s is None:
            self._enter(call, member, 0)

    def _finish_all(self, call: _Call, _: object) -> None:
        for rank in call.planned.ranks:
            self._leave(call, rank)

    def _leave(self, call: _Call, rank: int) -> None:
        call.num_left += 1
        if call.num_left == len(call.planned.ranks):
            del self.running[call.key, call.group]
        self._finish(rank, self._index(call, rank))

    # ── messages of a call ──

    def _enter(self, call: _Call, member: int, number: int) -> None:
        """Let a rank of the group proceed to message `number` of the call, once the rank has finished the messages
        before it."""
        plans = call.planned.plans
        if number == len(plans):
            self._leave(call, call.planned.ranks[member])
            return
        if number == len(call.messages):
            call.messages.append(_Message(plans[number], number))
        base_s = plans[number].law.base_s
        at(self.env, self.env.now + base_s, partial(self._open, call, call.messages[number], member))

    def _open(self, call: _Call, message: _Message, member: int, _: object) -> None:
        """Allow the rank `member` of the group to send and receive its transfers of the message from now on."""
        mine = message.plan.form.of_member[member]
        if mine:
            self._start_soon(call, message, message.settle(mine))
        else:
            self._enter(call, member, message.number + 1)

    def _start_soon(self, call: _Call, message: _Message, ready: list[int]) -> None:
        """Start the transfers in `ready` after all other events of this instant. Transfers that may start at the same
        instant thus start in the order of their list, independent of which rank's event is processed first."""
        if not self.pending:
            at_end_of_instant(self.env, self._start_pending)
        self.pending.setdefault(message, (call, []))[1].extend(ready)

    def _start_pending(self) -> None:
        pending, self.pending = self.pending, {}
        for message, (call, ready) in pending.items():
            self._start(call, message, sorted(ready))

    def _start(self, call: _Call, message: _Message, ready: list[int]) -> None:
        """Start the transfers in `ready`, and all transfers that may start as a consequence."""
        form, sizes = message.plan.form, message.plan.sizes
        queue = deque(ready)
        while queue:
            index = queue.popleft()
            travels = sizes[index] > 0.0 and form.src[index] != form.dst[index]
            if travels and not message.may_go(index):
                continue
            if form.following[index] >= 0:
                queue.extend(message.settle((form.following[index],)))
            if travels and message.plan.is_host:
                at(self.env, self.env.now + message.plan.hop_s(index), partial(self._set_out, call, message, index))
            elif travels:
                self._send(call, message, index, message.plan.hop_s(index))
            else:
                queue.extend(self._landed(call, message, index))

    def _set_out(self, call: _Call, message: _Message, index: int, _: object) -> None:
        """Send a message whose start-up on the host is over; the host then starts its next message."""
        self._send(call, message, index, 0.0)
        ready = message.next_after(index)
        if ready:
            self._start_soon(call, message, ready)

    def _send(self, call: _Call, message: _Message, index: int, hop_s: float) -> None:
        """Put a message on the links of its path; `hop_s`: the remaining part of the message's start-up, in seconds."""
        now, plan = self.env.now, message.plan
        law, num_bytes, path = plan.law, plan.sizes[index], plan.paths[index]
        pace_s = num_bytes / law.bytes_per_s
        earliest = now + max(pace_s, hop_s + law.forwarded_share * pace_s)
        added = hop_s if law.is_added else 0.0
        carried = num_bytes if self.packets is None else self.packets.sent_bytes(num_bytes)
        then = partial(self._carried, call, message, index, earliest, added)
        Transit(self.env, path, carried, then).start(message.cap(index))

    def _carried(
        self, call: _Call, message: _Message, index: int, earliest: float, added: float, tail_s: float
    ) -> None:
        """Schedule the arrival of a message, given the time `tail_s` at which the links deliver its last byte."""
        at(self.env, max(earliest, tail_s + added), partial(self._arrived, call, message, index))
        if self.packets is not None:
            plan = message.plan
            back = Transit(self.env, plan.backs[index], self.packets.replied_bytes(plan.sizes[index]), _nothing)
            at(self.env, tail_s, back.go_on)

    def _arrived(self, call: _Call, message: _Message, index: int, _: object) -> None:
        ready = self._landed(call, message, index)
        if not message.plan.is_host:
            ready += message.next_after(index)
        if ready:
            self._start_soon(call, message, ready)

    def _landed(self, call: _Call, message: _Message, index: int) -> list[int]:
        """Finish a transfer and return the transfers that may start now; ranks that have no transfers of this message
        left proceed to the next message."""
        form = message.plan.form
        src, dst = form.src[index], form.dst[index]
        for member in (src,) if src == dst else (src, dst):
            message.left[member] -= 1
            if not message.left[member]:
                self._enter(call, member, message.number + 1)
        return message.settle(form.followers[index])


def _servers(planned: CallPlan) -> Iterator[Server]:
    """Yield the servers of all links that the transfers of a call pass."""
    for plan in planned.plans:
        for path in plan.paths:
            yield from path.servers


def _nothing(_: float) -> None:
    """Do nothing; callback of reply packets, whose arrival no transfer awaits."""
