"""What a collective takes: by its library's law, as it was measured, or alone where it is small."""

from __future__ import annotations

import numpy as np

from simfrontier.collectives import (
    CallTable,
    GroupShape,
    Library,
    algorithm as algorithm_of,
    message_bytes,
    messages_of,
    sent_share,
)
from simfrontier.cost.choice import GROUP_WAIT, pattern_key
from simfrontier.cost.coding import NO_CODING, PerHopCoding
from simfrontier.cost.folded import FoldedCluster
from simfrontier.cost.rates import seconds_alone, seconds_at, speeds_alone
from simfrontier.cost.work import NO_WORK, OpWork, PricedOp
from simfrontier.machine import Machine
from simfrontier.schedule import Collective, Schedule


def priced_collective(cluster: FoldedCluster, op: Collective) -> PricedOp:
    """A call by the library's law: a latency, and then the payload on its busiest wire."""
    if op.number in cluster.small:
        return _small(cluster, op)
    table = cluster.table(op)
    if table is not None:
        return _measured(cluster, op, table)
    algorithm = cluster.algorithms[op.number]
    key = pattern_key(op.axes, algorithm)
    mesh, tensors = cluster.schedule.mesh, cluster.schedule.tensors
    share = float(sent_share(op, algorithm, mesh))
    messages = messages_of(op, tensors, mesh)
    shape = cluster.shape(op.axes)
    hbm = algorithm_of(algorithm).memory_per_byte(op.kind)
    hops = PerHopCoding.of(op, tensors, mesh, cluster.machine) or NO_CODING
    hbm += hops.hbm_bytes
    runs = cluster.runs(op, key)
    peaks, alone = cluster.peak(key), cluster.alone(key, runs)
    works = []
    for cls, (peak, speed) in enumerate(zip(peaks.tolist(), alone.tolist(), strict=True)):
        if not runs[cls]:
            works.append(NO_WORK)
            continue
        if not speed:
            works.append(cluster.still(key, cls, share * sum(message.num_bytes for message in messages) * peak))
            continue
        sent_per_s = speed / peak
        latency = sum(
            algorithm_of(algorithm).latency_s(cluster.library, op.kind, message.num_bytes, shape, sent_per_s)
            for message in messages
        )
        latency += hops.num_gaps * cluster.machine.device.kernel_gap_s
        column, per_byte_s = cluster.column(key, cls), 1.0 / sent_per_s + hops.seconds
        held = cluster.reserved_units(column)
        # coding keeps all units busy for its part of the time; the call's own are the first of them
        units = max(0.0, hops.seconds * cluster.machine.device.num_compute_units - held.max() * per_byte_s)
        cap = cluster.cap(key) * peak
        if hops.seconds:
            cap = speed = peak / per_byte_s
        load = column.wire + column.hbm * hbm + column.units * units
        flow = cluster.intern((key, cls, hbm, cap, hops.seconds), column.rows, load, cap, held)
        volume = share * sum(message.num_bytes for message in messages)
        works.append(OpWork(latency, volume * peak, speed, flow, cluster.starting(key, cls, latency)))
    return PricedOp(key, tuple(works))


def _measured(cluster: FoldedCluster, op: Collective, table: CallTable) -> PricedOp:
    """A call of which times were measured: alone, on a machine as it should be, it takes the table's time.

    It flows at the rate of the table's largest messages, and what is left of its time is latency; where nothing is
    left, at the rate that its time asks for. What that rate asks of a link or memory beyond its nominal capacity,
    the measurement shows not to be asked, and is cut off. A call on a host with a bus keeps the whole bus for all
    of its time: there the ranks share the cores, which copy and are woken up for every message, so calls take
    turns.
    """
    algorithm, key = cluster.algorithms[op.number], cluster.key_of(op)
    share = float(sent_share(op, algorithm, cluster.schedule.mesh))
    sizes = [message.num_bytes for message in messages_of(op, cluster.schedule.tensors, cluster.schedule.mesh)]
    seconds, volume = sum(map(table.seconds, sizes)), share * sum(sizes)
    sent_per_s = share / table.seconds_per_byte
    latency = seconds - volume / sent_per_s
    if latency < 0.0 or cluster.machine.node.has_bus:
        latency, sent_per_s = 0.0, volume / seconds
    hbm = algorithm_of(algorithm).memory_per_byte(op.kind)
    peaks = cluster.peak(key)
    columns = [cluster.folding.column(key, cls) for cls in range(len(peaks))]
    asked = np.zeros(len(cluster.nominal))
    for column, peak in zip(columns, peaks.tolist(), strict=True):
        np.add.at(asked, column.rows, (column.wire + column.hbm * hbm) * sent_per_s * peak)
    eased = np.divide(cluster.nominal, asked, out=np.ones_like(asked), where=asked > cluster.nominal)
    if cluster.machine.node.has_bus:
        for column in columns:
            bus = column.rows[column.wire > 0.0]
            eased[bus] = cluster.nominal[bus] / asked[bus]
    alone = speeds_alone(cluster.folding, key, sent_per_s * peaks, eased)
    works = []
    for cls, (column, peak, speed) in enumerate(zip(columns, peaks.tolist(), alone.tolist(), strict=True)):
        if not speed:
            works.append(cluster.still(key, cls, volume * peak))
            continue
        load = (column.wire + column.hbm * hbm) * eased[column.rows]
        flow = cluster.intern(
            (key, cls, hbm, sent_per_s), column.rows, load, sent_per_s * peak, cluster.reserved_units(column)
        )
        works.append(OpWork(latency, volume * peak, speed, flow, cluster.starting(key, cls, latency)))
    return PricedOp(key, tuple(works))


def _small(cluster: FoldedCluster, op: Collective) -> PricedOp:
    """A call that takes its time alone and loads nothing; its groups still wait for each other."""
    key = pattern_key(op.axes, GROUP_WAIT)
    algorithm, table = cluster.algorithms[op.number], cluster.table(op)
    if table is None:
        seconds = seconds_alone(
            op, algorithm, cluster.schedule, cluster.library, cluster.fabric, cluster.pattern_of(op)
        )
    else:
        messages = messages_of(op, cluster.schedule.tensors, cluster.schedule.mesh)
        seconds = sum(table.seconds(message.num_bytes) for message in messages)
    seconds += _coded_s(op, algorithm, cluster.schedule, cluster.machine)
    work = OpWork(seconds, 0.0, 1.0, -1)
    return PricedOp(key, (work,) * len(cluster.folding.count(key)))


def _coded_s(op: Collective, algorithm: str, schedule: Schedule, machine: Machine) -> float:
    """What coding every message by itself takes of a call; nothing where none is."""
    hops = PerHopCoding.of(op, schedule.tensors, schedule.mesh, machine)
    if hops is None:
        return 0.0
    sizes = message_bytes(op, schedule.tensors, schedule.mesh)
    volume = float(sent_share(op, algorithm, schedule.mesh) * sizes)
    return hops.num_gaps * machine.device.kernel_gap_s + volume * hops.seconds


def call_s(
    op: Collective,
    algorithm: str,
    schedule: Schedule,
    library: Library,
    machine: Machine,
    shape: GroupShape,
    sent_per_s: float,
) -> float:
    """Time of a call alone by the library's law, in a group of that shape whose ranks send at a rate."""
    seconds = seconds_at(op, algorithm, schedule, library, shape, sent_per_s)
    return seconds + _coded_s(op, algorithm, schedule, machine)
