"""Plans of collective calls lowered to transfers, for a group or a pair of ranks: the transfers of each message, their
sizes and paths, and the law for the time of single messages."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import simpy
from numpy.typing import NDArray

from simfrontier.core.collectives import (
    Recipe,
    StepLaw,
    algorithm as algorithm_of,
    element_bytes,
    exchanged_bytes,
    lower,
    messages_of,
    sent_share,
)
from simfrontier.core.cost import NO_CODING, FoldedPattern, PerHopCoding, Pricing, pair_shape, pairs_of
from simfrontier.core.engine.flows import at
from simfrontier.core.engine.transfers import TransferLists, recipe, recipes_of
from simfrontier.core.network import Fabric, Server, route, servers_of
from simfrontier.core.program import DIRECT, Collective, CollectiveKind, Exchange


@dataclass(frozen=True, slots=True, eq=False)
class Path:
    """Path from one rank to another: the link servers that a message passes, the share of each server's capacity that
    the message reaches, and whether the path leaves the node."""

    servers: tuple[Server, ...]
    shares: tuple[float, ...]
    is_between_nodes: bool

    def count(self, num_bytes: float) -> None:
        """Add `num_bytes` to the byte count of every link of the path, without occupying the links."""
        for server in self.servers:
            server.num_bytes += num_bytes


class Transit:
    """Transit of one message along its path. `then` is called with the arrival time of the message's last byte as soon
    as that time is known; it is never called if a link on the path is permanently dead."""

    __slots__ = ("env", "num_bytes", "path", "place", "tail_s", "then")

    def __init__(self, env: simpy.Environment, path: Path, num_bytes: float, then: Callable[[float], None]) -> None:
        self.env, self.path, self.num_bytes, self.then = env, path, num_bytes, then
        self.place, self.tail_s = 0, env.now

    def start(self, first: Server | None = None) -> None:
        """Send the message now; if a server `first` is given, the message passes it before the links of the path."""
        if first is None:
            self.go_on()
            return
        head, self.tail_s = first.serve(self.env.now, self.num_bytes, self.tail_s)
        self._wait(head)

    def go_on(self, _: object = None) -> None:
        """Pass links of the path until the head of the message has to wait; a link serves messages in order of
        arrival."""
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


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MessagePlan:
    """Plan of one message of a call: parallel lists over the message's transfers, and the law for the time of single
    messages. `cap_bytes_per_s`: the maximum rate at which a rank can send on one channel. `most_at_once`: the maximum
    number of direct messages of a rank in flight at once, which applies separately to messages inside the node and to
    messages that leave it (None: unlimited). `is_host`: the message is a direct message of a library that does not pace
    its messages: the start-up on the host precedes the transfer over the links, and the message counts as in flight
    only during that start-up. `coding`: time that sender and receiver spend on coding a message separately, before it
    is sent."""

    form: TransferLists
    sizes: list[float]
    paths: list[Path]
    backs: list[Path]
    law: StepLaw
    cap_bytes_per_s: float
    most_at_once: int | None
    is_host: bool
    coding: PerHopCoding
    gap_s: float

    def hop_s(self, index: int) -> float:
        """Return the start-up time of the transfer with this index, in seconds."""
        start_s = self.law.hop_between_nodes_s if self.paths[index].is_between_nodes else self.law.hop_in_node_s
        if not self.coding.num_gaps:
            return start_s
        return start_s + 2 * self.gap_s + self.coding.seconds * self.sizes[index]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CallPlan:
    """Plan of one collective call by one group: the group's ranks, the messages of the call, and the total time of the
    call if it was measured."""

    ranks: tuple[int, ...]
    plans: tuple[MessagePlan, ...]
    measured_s: float | None


@dataclass
class CallPlans:
    """Plans of all collective calls of a pricing, each created once, and the servers of all links, indexed by link id.
    `later`: fabrics of later machine states, each with the time in seconds from which it applies."""

    pricing: Pricing
    later: Sequence[tuple[float, Fabric]] = ()
    _planned: dict[tuple[int, int], CallPlan] = field(default_factory=dict)
    _places: dict[tuple[tuple[str, ...], tuple[int, ...]], tuple[NDArray[np.int64], list[tuple[int, int]]]] = field(
        default_factory=dict
    )
    _recipes: dict[int, tuple[Recipe, ...]] = field(default_factory=dict)
    _forms: dict[tuple[CollectiveKind, Recipe], TransferLists] = field(default_factory=dict)
    _paths: dict[tuple[str, int, int], Path] = field(default_factory=dict)
    _rates: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.servers = servers_of(self.pricing.fabric, self.later)

    def place(self, op: Collective | Exchange, rank: int) -> tuple[int, int]:
        """Return the number of the group (or pair) to which a rank belongs, and the index of the rank within that
        group."""
        return self._groups(op)[1][rank]

    def planned(self, op: Collective | Exchange, group: int) -> CallPlan:
        """Return the plan of the op's call in the group (or pair) with number `group`."""
        if (op.number, group) not in self._planned:
            ranks = tuple(self._groups(op)[0][group].tolist())
            made = self._exchange(op, ranks) if isinstance(op, Exchange) else self._collective(op, group, ranks)
            self._planned[op.number, group] = made
        return self._planned[op.number, group]

    def count(self, planned: CallPlan) -> None:
        """Add the bytes of a call that is not simulated message by message to the byte counts of its links."""
        packets = self.pricing.machine.packets
        for plan in planned.plans:
            for num_bytes, path, back in zip(plan.sizes, plan.paths, plan.backs, strict=True):
                if num_bytes:
                    path.count(num_bytes if packets is None else packets.sent_bytes(num_bytes))
                    back.count(0.0 if packets is None else packets.replied_bytes(num_bytes))

    def _groups(self, op: Collective | Exchange) -> tuple[NDArray[np.int64], list[tuple[int, int]]]:
        """Return the ranks of every group or pair of the op, and for every rank the number of its group and its index
        within the group."""
        key = ((op.axis,), op.ends) if isinstance(op, Exchange) else (op.axes, ())
        if key not in self._places:
            schedule = self.pricing.schedule
            groups = pairs_of(op, schedule) if isinstance(op, Exchange) else schedule.mesh.groups(op.axes)
            places = [(0, 0)] * self.pricing.fabric.num_ranks
            for group, ranks in enumerate(groups.tolist()):
                for member, rank in enumerate(ranks):
                    places[rank] = group, member
            self._places[key] = groups, places
        return self._places[key]

    def _exchange(self, op: Exchange, ranks: tuple[int, ...]) -> CallPlan:
        """Return the plan of an exchange: one message in each direction, sent like the direct messages of an all-to-all
        between two ranks (the same model that `cost` uses for the price of an exchange)."""
        pricing, library = self.pricing, self.pricing.library
        sizes = exchanged_bytes(op, pricing.schedule.tensors, pricing.schedule.mesh)
        shape = pair_shape(pricing.pattern_of(op).edges.sum(axis=0))
        form = self._form("all_to_all", recipe(pricing.fabric, np.array(ranks), DIRECT, library, max(sizes)))
        sent = {(0, 1): float(sizes[0]), (1, 0): float(sizes[1])}
        each = [sent.get(ends, 0.0) for ends in zip(form.src, form.dst, strict=True)]
        law = algorithm_of(DIRECT).step_law(library, "all_to_all", max(sizes), shape, math.inf, 1)
        plan = self._message(DIRECT, ranks, form, each, law, math.inf, NO_CODING)
        return CallPlan(ranks=ranks, plans=(plan,), measured_s=None)

    def _collective(self, op: Collective, group: int, ranks: tuple[int, ...]) -> CallPlan:
        pricing, name = self.pricing, self.pricing.algorithms[op.number]
        by, library, mesh = algorithm_of(name), pricing.library, pricing.schedule.mesh
        shape, rate = pricing.shape(op.axes), self._sent_per_s(op, group)
        messages = messages_of(op, pricing.schedule.tensors, mesh)
        if op.number not in self._recipes:
            self._recipes[op.number] = recipes_of(op, pricing)
        recipe = self._recipes[op.number][group]
        form, num_channels = self._form(op.wire_kind, recipe), len(recipe.orders)
        coding = PerHopCoding.of(op, pricing.schedule.tensors, mesh, pricing.machine)
        coding = replace(coding, seconds=coding.seconds * num_channels)  # the channels share the device
        plans = []
        for message in messages:
            sizes = form.sizes(message.num_bytes, element_bytes(op, message))
            law = by.step_law(library, op.kind, message.num_bytes, shape, rate, num_channels)
            cap = by.cap_bytes_per_s(library, shape)
            if math.isfinite(cap):  # the cap applies to the volume; a tree's inner members send more
                volume = float(sent_share(op, name, mesh)) * message.num_bytes
                cap *= max(1.0, float(np.bincount(form.src, sizes).max(initial=0.0)) / volume) / len(set(form.channel))
            plans.append(self._message(name, ranks, form, sizes, law, cap, coding))
        table = pricing.table(op)
        measured_s = None if table is None else sum(table.seconds(message.num_bytes) for message in messages)
        return CallPlan(ranks=ranks, plans=tuple(plans), measured_s=measured_s)

    def _message(
        self,
        name: str,
        ranks: tuple[int, ...],
        form: TransferLists,
        sizes: list[float],
        law: StepLaw,
        cap_bytes_per_s: float,
        coding: PerHopCoding,
    ) -> MessagePlan:
        most = algorithm_of(name).most_at_once(self.pricing.library)
        ends = list(zip(form.src, form.dst, strict=True))
        return MessagePlan(
            form=form,
            sizes=sizes,
            paths=[self._path(name, ranks[a], ranks[b]) for a, b in ends],
            backs=[self._path(name, ranks[b], ranks[a]) for a, b in ends],
            law=law,
            cap_bytes_per_s=cap_bytes_per_s,
            most_at_once=most,
            is_host=most is not None and not self.pricing.library.paced,
            coding=coding,
            gap_s=self.pricing.machine.device.kernel_gap_s,
        )

    def _form(self, kind: CollectiveKind, recipe: Recipe) -> TransferLists:
        library = self.pricing.library
        if (kind, recipe) not in self._forms:
            self._forms[kind, recipe] = TransferLists.of(lower(kind, recipe), library.paced, library.in_flight)
        return self._forms[kind, recipe]

    def _path(self, algorithm: str, source: int, target: int) -> Path:
        """Return the path between two ranks for messages of an algorithm; on a machine with a packet model, messages
        reach the whole capacity of the links."""
        key = algorithm, source, target
        if key not in self._paths:
            pricing, fabric = self.pricing, self.pricing.fabric
            a, b = int(fabric.device_of[source]), int(fabric.device_of[target])
            links = route(fabric, a, b)
            shares = algorithm_of(algorithm).shares_on(pricing.library, pricing.machine)
            names = [fabric.class_names[fabric.link_class[link]] for link in links]
            self._paths[key] = Path(
                servers=tuple(self.servers[link] for link in links),
                shares=tuple(shares[name] if pricing.machine.packets is None else 1.0 for name in names),
                is_between_nodes=a // pricing.machine.devices_per_node != b // pricing.machine.devices_per_node,
            )
        return self._paths[key]

    def _sent_per_s(self, op: Collective, group: int) -> float:
        """Return the bytes per second that a rank of a group sends when only the groups of this op communicate."""
        pricing, key = self.pricing, self.pricing.key_of(op)
        if key not in self._rates:
            alone = FoldedPattern.alone(pricing.fabric, pricing.pattern_of(op), exact=True)
            self._rates[key] = alone.sent_per_s(pricing.cap(key)).tolist()
        return self._rates[key][group]
