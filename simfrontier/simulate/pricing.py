"""Pricing: what every op of a schedule asks of a machine, as work on the classes of a folded fabric.

An op is a latency and then an amount that flows at a fair rate. A kernel's amount is its memory traffic, capped so
that alone it takes its roofline time; a collective's amount is the payload on its busiest wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from simfrontier.collectives import (
    CallTable,
    GroupShape,
    Library,
    call_of,
    exchanged_bytes,
    messages_of,
    sent_share,
)
from simfrontier.collectives import algorithm as algorithm_of
from simfrontier.errors import InputError
from simfrontier.machine import Machine
from simfrontier.network import Column, Fabric, Folding, Pattern, Perturbation, fold, local, paired
from simfrontier.schedule.algorithms import DIRECT
from simfrontier.schedule.cost import matmul_dtype, matmul_form, matmul_shape, traffic_bytes
from simfrontier.schedule.ir import Collective, Compute, Exchange, Op, Schedule
from simfrontier.simulate.cast import Cast, cast_of, exchange_key, pairs_of, users_of
from simfrontier.simulate.choice import (
    MEETING,
    Choices,
    group_shape,
    pattern_key,
    seconds_alone,
    speeds_alone,
)
from simfrontier.simulate.coding import NO_CODING, PerHop, coding_s
from simfrontier.simulate.work import NO_WORK, Flow, Priced, Work

LOCAL = "local"
SMALL_BYTES = 1024  # a message up to this size takes its time alone and no bandwidth: 0.1 us on the slowest link here
Placement = Literal["block", "cyclic"]


@dataclass
class Cluster:
    """A schedule's ops priced on a machine: the fabric, the patterns that load it, their folding, and the works.

    `algorithms` and `small` go by id of the op. `counted` has the pattern of every op with messages, small ones too,
    for counts of bytes; `patterns` those that load links, and meetings for the small ones. `nominal` is the capacity of
    every link class without perturbation, on which calibrated times are taken to hold. `cast`: who runs which role;
    `role_of` that of each rank class; `users` the roles that an op stands in, by its id, empty where there is one role.
    """

    schedule: Schedule
    machine: Machine
    library: Library
    fabric: Fabric
    algorithms: dict[int, str]
    patterns: dict[str, Pattern]
    counted: dict[str, Pattern]
    small: frozenset[int]
    folding: Folding
    nominal: NDArray[np.float64]
    cast: Cast
    role_of: NDArray[np.int32]
    users: Mapping[int, frozenset[int]] = field(default_factory=dict)
    flows: list[Flow] = field(default_factory=list)
    priced: dict[int, Priced] = field(default_factory=dict)
    _interned: dict[tuple[object, ...], int] = field(default_factory=dict)
    _alone: dict[tuple[str, tuple[bool, ...]], NDArray[np.float64]] = field(default_factory=dict)
    _peaks: dict[str, NDArray[np.float64]] = field(default_factory=dict)
    _columns: dict[tuple[str, int], Column] = field(default_factory=dict)
    _shapes: dict[tuple[str, ...], GroupShape] = field(default_factory=dict)

    def of(self, op: Op) -> Priced:
        """The priced op (each distinct op is priced once)."""
        known = self.priced.get(id(op))
        if known is None:
            match op:
                case Compute():
                    known = self._compute(op)
                case Collective():
                    known = self._collective(op)
                case Exchange():
                    known = self._exchange(op)
            self.priced[id(op)] = known
        return known

    def has_part(self, op: Op) -> NDArray[np.bool_]:
        """[num_rank_classes] whether the ranks of a class run a program with the op."""
        if not self.users:
            return np.ones(self.folding.num_rank_classes, bool)
        return np.isin(self.role_of, list(self.users[id(op)]))

    @property
    def mesh_is_machine(self) -> bool:
        """Whether the outermost axis of the mesh counts the machine's nodes, where ranks are placed in blocks."""
        outer = self.schedule.mesh.names[0]
        return self.schedule.mesh[outer] == self.fabric.num_nodes

    def volume_bytes(self, op: Collective | Exchange) -> float:
        """Bytes that one rank sends in one call; of an exchange the rank that sends more."""
        if isinstance(op, Exchange):
            return float(max(exchanged_bytes(op, self.schedule.tensors, self.schedule.mesh)))
        messages = messages_of(op, self.schedule.tensors, self.schedule.mesh)
        share = sent_share(op, self.algorithms[id(op)], self.schedule.mesh)
        return float(share * sum(message.num_bytes for message in messages))

    def pattern_of(self, op: Collective | Exchange) -> Pattern:
        """The pattern of an op's messages, for counting."""
        return self.counted[self.key_of(op)]

    def key_of(self, op: Collective | Exchange) -> str:
        """Key of that pattern."""
        if isinstance(op, Exchange):
            return exchange_key(op, *exchanged_bytes(op, self.schedule.tensors, self.schedule.mesh))
        return pattern_key(op.axes, self.algorithms[id(op)])

    def shape(self, axes: tuple[str, ...]) -> GroupShape:
        """Of the groups over `axes`."""
        if axes not in self._shapes:
            self._shapes[axes] = group_shape(self.fabric, self.schedule.mesh, axes)
        return self._shapes[axes]

    def table(self, op: Collective) -> CallTable | None:
        """The measured times that a call takes, if there are any."""
        return self.library.table(call_of(op), self.shape(op.axes))

    def _intern(
        self,
        key: tuple[object, ...],
        rows: NDArray[np.int64],
        load: NDArray[np.float64],
        cap: float,
        held: NDArray[np.float64] | None = None,
    ) -> int:
        if key not in self._interned:
            self._interned[key] = len(self.flows)
            self.flows.append(Flow(rows, load, np.zeros(len(rows)) if held is None else held, cap))
        return self._interned[key]

    def _held(self, column: Column) -> NDArray[np.float64]:
        """Compute units that one call's channels keep on every rank of its group."""
        return np.where(column.units > 0.0, self.library.num_channels * self.library.units_per_channel, 0.0)

    def _starting(self, key: str, cls: int, latency_s: float) -> int:
        """The flow of a call that starts up: its kernel runs, so its channels keep their units."""
        column = self._column(key, cls)
        held = self._held(column)
        if latency_s <= 0.0 or not held.any():
            return -1
        return self._intern(("starting", key, cls), column.rows, np.zeros(len(held)), 1.0, held)

    def _compute(self, op: Compute) -> Priced:
        device, mesh = self.machine.device, self.schedule.mesh
        traffic = float(traffic_bytes(op, self.schedule.tensors, mesh))
        speeds = self.fabric.speed[self.folding.representative]
        if op.kind == "hook" or traffic == 0.0:
            hook_s = self.machine.host.hook_s if op.lane == "host" else 0.0  # elsewhere a stream's wait for another
            wait = Work(hook_s if op.kind == "hook" else device.kernel_gap_s, 0.0, 1.0, -1)
            return Priced(LOCAL, (wait,) * len(speeds))
        math_s = coding_s(op, self.schedule.tensors, mesh, self.machine)
        if op.matmul is not None:
            batch, m, n, k = matmul_shape(op, mesh)
            matmul = self.machine.matmul(matmul_dtype(op, self.schedule.tensors))
            factor = device.matmul_forms.factor(matmul_form(op, self.schedule.tensors))
            math_s = op.local_flops(mesh) / (matmul.rate(m, n, k, batch) * factor)
        works = []
        for cls, (speed, has_part) in enumerate(zip(speeds.tolist(), self.has_part(op).tolist(), strict=True)):
            if not has_part:
                works.append(NO_WORK)
                continue
            alone = traffic / device.kernel_s(math_s, traffic, speed)
            units = math_s / speed * device.num_compute_units / traffic
            column = self._column(LOCAL, cls)
            load = column.hbm + column.units * units
            works.append(Work(0.0, traffic, alone, self._intern((cls, alone, units), column.rows, load, alone)))
        return Priced(LOCAL, tuple(works))

    def _collective(self, op: Collective) -> Priced:
        if id(op) in self.small:
            return self._small(op)
        table = self.table(op)
        if table is not None:
            return self._measured(op, table)
        algorithm = self.algorithms[id(op)]
        key = pattern_key(op.axes, algorithm)
        mesh, tensors = self.schedule.mesh, self.schedule.tensors
        share = float(sent_share(op, algorithm, mesh))
        messages = messages_of(op, tensors, mesh)
        shape = self.shape(op.axes)
        hbm = algorithm_of(algorithm).memory_per_byte(op.kind)
        hops = PerHop.of(op, tensors, mesh, self.machine) or NO_CODING
        hbm += hops.hbm_bytes
        runs = self._runs(op, key)
        peaks, alone = self._peak(key), self.alone(key, runs)
        works = []
        for cls, (peak, speed) in enumerate(zip(peaks.tolist(), alone.tolist(), strict=True)):
            if not runs[cls]:
                works.append(NO_WORK)
                continue
            sent_per_s = speed / peak
            latency = sum(
                self.library.latency_s(algorithm, op.kind, message.num_bytes, shape, sent_per_s) for message in messages
            )
            latency += hops.num_gaps * self.machine.device.kernel_gap_s
            column, per_byte_s = self._column(key, cls), 1.0 / sent_per_s + hops.seconds
            held = self._held(column)
            # coding keeps all units busy for its part of the time; the call's own are the first of them
            units = max(0.0, hops.seconds * self.machine.device.num_compute_units - held.max() * per_byte_s)
            cap = self._cap(key) * peak
            if hops.seconds:
                cap = speed = peak / per_byte_s
            load = column.wire + column.hbm * hbm + column.units * units
            flow = self._intern((key, cls, hbm, cap, hops.seconds), column.rows, load, cap, held)
            volume = share * sum(message.num_bytes for message in messages)
            works.append(Work(latency, volume * peak, speed, flow, self._starting(key, cls, latency)))
        return Priced(key, tuple(works))

    def _exchange(self, op: Exchange) -> Priced:
        """Messages between two ranks, priced as direct messages are: an all-to-all of two members by the library's law,
        its start-up once for both directions, at the share of the links that direct messages reach.

        Assumed: both directions go at once, full duplex, and the smaller message ends with the larger; a send and a
        receive that are issued together start up once. No table of measured calls holds for them.
        """
        there, back = exchanged_bytes(op, self.schedule.tensors, self.schedule.mesh)
        key, volume = self.key_of(op), float(max(there, back))
        pattern, peaks = self.patterns[key], self._peak(key)
        alone = self.alone(key, (True,) * len(peaks))
        first = np.unique(self.folding.activity_class[key], return_index=True)[1]
        works = []
        each = zip(peaks.tolist(), alone.tolist(), pattern.edges[first].tolist(), strict=True)
        for cls, (peak, speed, edges) in enumerate(each):
            if not any(edges):  # a rank that is in no pair
                works.append(NO_WORK)
                continue
            sent_per_s = speed / peak
            shape = GroupShape(size=2, num_nodes=1 + bool(edges[2]), num_packages=2 - bool(edges[0]))
            latency = self.library.latency_s(DIRECT, "all_to_all", volume, shape, sent_per_s)
            column = self._column(key, cls)
            load = column.wire + column.hbm * ((there + back) / volume)
            flow = self._intern((key, cls), column.rows, load, np.inf, self._held(column))
            works.append(Work(latency, volume * peak, speed, flow, self._starting(key, cls, latency)))
        return Priced(key, tuple(works))

    def _runs(self, op: Op, key: str) -> tuple[bool, ...]:
        """Per activity class: whether ranks that run the op are in it."""
        if not self.users:
            return (True,) * len(self.folding.count(key))
        has_part = self.has_part(op).tolist()
        return tuple(any(has_part[member] for member in members) for members in self.folding.members(key))

    def _column(self, key: str, cls: int) -> Column:
        if (key, cls) not in self._columns:
            self._columns[key, cls] = self.folding.column(key, cls)
        return self._columns[key, cls]

    def _measured(self, op: Collective, table: CallTable) -> Priced:
        """A call of which times were measured: alone, on a machine as it should be, it takes the table's time.

        It flows at the rate of the table's largest messages, and what is left of its time is latency; where nothing is
        left, at the rate that its time asks for. What that rate asks of a link or memory beyond its nominal capacity,
        the measurement shows not to be asked, and is cut off. A call on a host with a bus keeps the whole bus for all
        of its time: there the ranks share the cores, which copy and are woken up for every message, so calls take
        turns.
        """
        algorithm, key = self.algorithms[id(op)], self.key_of(op)
        share = float(sent_share(op, algorithm, self.schedule.mesh))
        sizes = [message.num_bytes for message in messages_of(op, self.schedule.tensors, self.schedule.mesh)]
        seconds, volume = sum(map(table.seconds, sizes)), share * sum(sizes)
        sent_per_s = share / table.seconds_per_byte
        latency = seconds - volume / sent_per_s
        if latency < 0.0 or self.machine.node.has_bus:
            latency, sent_per_s = 0.0, volume / seconds
        hbm = algorithm_of(algorithm).memory_per_byte(op.kind)
        peaks = self._peak(key)
        columns = [self.folding.column(key, cls) for cls in range(len(peaks))]
        asked = np.zeros(len(self.nominal))
        for column, peak in zip(columns, peaks.tolist(), strict=True):
            np.add.at(asked, column.rows, (column.wire + column.hbm * hbm) * sent_per_s * peak)
        eased = np.divide(self.nominal, asked, out=np.ones_like(asked), where=asked > self.nominal)
        if self.machine.node.has_bus:
            for column in columns:
                bus = column.rows[column.wire > 0.0]
                eased[bus] = self.nominal[bus] / asked[bus]
        alone = speeds_alone(self.folding, key, sent_per_s * peaks, eased)
        works = []
        for cls, (column, peak, speed) in enumerate(zip(columns, peaks.tolist(), alone.tolist(), strict=True)):
            load = (column.wire + column.hbm * hbm) * eased[column.rows]
            flow = self._intern((key, cls, hbm, sent_per_s), column.rows, load, sent_per_s * peak, self._held(column))
            works.append(Work(latency, volume * peak, speed, flow, self._starting(key, cls, latency)))
        return Priced(key, tuple(works))

    def _small(self, op: Collective) -> Priced:
        key = pattern_key(op.axes, MEETING)
        algorithm, table = self.algorithms[id(op)], self.table(op)
        if table is None:
            seconds = seconds_alone(op, algorithm, self.schedule, self.library, self.fabric, self.pattern_of(op))
        else:
            messages = messages_of(op, self.schedule.tensors, self.schedule.mesh)
            seconds = sum(table.seconds(message.num_bytes) for message in messages)
        hops = PerHop.of(op, self.schedule.tensors, self.schedule.mesh, self.machine)
        if hops is not None:
            seconds += hops.num_gaps * self.machine.device.kernel_gap_s + self.volume_bytes(op) * hops.seconds
        work = Work(seconds, 0.0, 1.0, -1)
        return Priced(key, (work,) * len(self.folding.count(key)))

    def alone(self, key: str, runs: tuple[bool, ...]) -> NDArray[np.float64]:
        """Speed of each activity class when only this pattern's activities run, all that `runs` says, on wires."""
        if (key, runs) not in self._alone:
            self._alone[key, runs] = speeds_alone(self.folding, key, self._cap(key) * self._peak(key), runs=runs)
        return self._alone[key, runs]

    def _cap(self, key: str) -> float:
        """What the library lets a rank send at most on a pattern."""
        axes, algorithm = key.rsplit("/", 1)
        if ":" in algorithm:  # of an exchange
            return np.inf
        return self.library.cap_bytes_per_s(algorithm, self.shape(tuple(axes.split("+"))))

    def _peak(self, key: str) -> NDArray[np.float64]:
        if key not in self._peaks:
            _, first = np.unique(self.folding.activity_class[key], return_index=True)
            self._peaks[key] = self.patterns[key].peak[first]
        return self._peaks[key]


def price(
    schedule: Schedule,
    machine: Machine,
    library: Library,
    perturbation: Perturbation | None = None,
    exact: bool = False,
    placement: Placement = "block",
) -> Cluster:
    """Lay the schedule's ranks out on the machine, choose algorithms, build patterns and fold them.

    Placement as Slurm's distributions: `block` fills node after node, `cyclic` deals ranks out over the nodes in turn.
    """
    mesh, cast = schedule.mesh, cast_of(schedule)
    if mesh.num_ranks > machine.num_devices:
        raise InputError(f"{machine.name} has {machine.num_devices} devices; the mesh needs {mesh.num_ranks}")
    num_nodes = -(-mesh.num_ranks // machine.devices_per_node)
    device_of = placed(placement, mesh.num_ranks, num_nodes, machine)
    fabric = Fabric.build(machine, num_nodes, perturbation, num_devices=mesh.num_ranks, placement=device_of)
    maker = Choices(fabric, mesh, library)
    collectives = {id(op): op for op in schedule.distinct_ops() if isinstance(op, Collective)}
    algorithms = {number: maker.choose(op, schedule) for number, op in collectives.items()}
    small = frozenset(
        number
        for number, op in collectives.items()
        if sum(message.num_bytes for message in messages_of(op, schedule.tensors, mesh)) <= SMALL_BYTES
    )
    counted, patterns = {}, {}
    for number, op in collectives.items():
        algorithm = algorithms[number]
        counted[pattern_key(op.axes, algorithm)] = maker.get(op.axes, algorithm)
        loading = MEETING if number in small else algorithm
        patterns[pattern_key(op.axes, loading)] = maker.get(op.axes, loading)
    for exchange in [op for op in schedule.distinct_ops() if isinstance(op, Exchange)]:
        sizes = exchanged_bytes(exchange, schedule.tensors, mesh)
        if (key := exchange_key(exchange, *sizes)) not in patterns:
            counted[key] = patterns[key] = _pattern_of_pairs(exchange, schedule, sizes, fabric, library)
    patterns = {key: patterns[key] for key in sorted(patterns)} | {LOCAL: local(fabric)}
    folding = fold(fabric, patterns, None if cast.is_one else cast.of_rank, exact=exact)
    healthy = fabric
    if perturbation is not None and library.tables:
        healthy = Fabric.build(machine, num_nodes, num_devices=mesh.num_ranks, placement=device_of)
    return Cluster(
        schedule=schedule,
        machine=machine,
        library=maker.library,
        fabric=fabric,
        algorithms=algorithms,
        patterns=patterns,
        counted=counted,
        small=small,
        folding=folding,
        nominal=healthy.capacity[folding.link_representative],
        cast=cast,
        role_of=cast.of_rank[folding.representative],
        users={} if cast.is_one else users_of(schedule),
    )


def placed(placement: Placement, num_ranks: int, num_nodes: int, machine: Machine) -> NDArray[np.int64] | None:
    """The device of every rank [num_ranks]; None where rank i has device i."""
    if placement == "block" or num_nodes == 1:
        return None
    ranks = np.arange(num_ranks)
    return ranks % num_nodes * machine.devices_per_node + ranks // num_nodes


def _pattern_of_pairs(
    op: Exchange, schedule: Schedule, sizes: tuple[int, int], fabric: Fabric, library: Library
) -> Pattern:
    if not any(sizes):
        raise InputError(f"schedule: exchange {op.name}: its messages have no bytes")
    return paired(fabric, pairs_of(op, schedule), *sizes, library.shares_on(fabric.machine, DIRECT))
