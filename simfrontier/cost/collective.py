"""What a collective takes: by its library's law, as it was measured, or alone where it is small."""

from __future__ import annotations

import numpy as np

from simfrontier.collectives import CallTable, algorithm as algorithm_of
from simfrontier.cost.choice import GROUP_WAIT, pattern_key
from simfrontier.cost.coding import PerHopCoding
from simfrontier.cost.folded import FoldedCluster
from simfrontier.cost.work import NO_WORK, OpWork, PricedOp
from simfrontier.schedule import Collective


def priced_collective(cluster: FoldedCluster, op: Collective) -> PricedOp:
    """A call by the library's law: a latency, and then the payload on its busiest wire."""
    if op.number in cluster.small:
        return _small(cluster, op)
    table = cluster.table(op)
    if table is not None:
        return _measured(cluster, op, table)
    algorithm = cluster.algorithms[op.number]
    key = pattern_key(op.axes, algorithm)
    call = cluster.call(op)
    volume = call.volume_bytes(algorithm)
    hops = PerHopCoding.of(op, cluster.schedule.tensors, cluster.schedule.mesh, cluster.machine)
    hbm = algorithm_of(algorithm).memory_per_byte(op.kind) + hops.hbm_bytes
    runs = cluster.runs(op, key)
    works = []
    each = zip(cluster.folded(key).peak.tolist(), cluster.sent_per_s(key, runs).tolist(), strict=True)
    for cls, (peak, sent_per_s) in enumerate(each):
        if not runs[cls]:
            works.append(NO_WORK)
            continue
        if not sent_per_s:
            works.append(cluster.still(key, cls, volume * peak))
            continue
        latency = call.latency_s(algorithm, cluster.library, sent_per_s) + hops.added_s(0.0, cluster.machine)
        column, per_byte_s = cluster.column(key, cls), 1.0 / sent_per_s + hops.seconds
        held = cluster.reserved_units(column)
        # coding keeps all units busy for its part of the time; the call's own are the first of them
        units = max(0.0, hops.seconds * cluster.machine.device.num_compute_units - held.max() * per_byte_s)
        cap, speed = cluster.cap(key) * peak, sent_per_s * peak
        if hops.seconds:
            cap = speed = peak / per_byte_s
        load = column.wire + column.hbm * hbm + column.units * units
        flow = cluster.intern((key, cls, hbm, cap, hops.seconds), column.rows, load, cap, held)
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
    call, by = cluster.call(op), algorithm_of(algorithm)
    seconds, volume = sum(map(table.seconds, call.sizes)), call.volume_bytes(algorithm)
    sent_per_s = by.sent(op.kind, call.shape.size) / table.seconds_per_byte
    latency = seconds - volume / sent_per_s
    if latency < 0.0 or cluster.machine.node.has_bus:
        latency, sent_per_s = 0.0, volume / seconds
    hbm, folded = by.memory_per_byte(op.kind), cluster.folded(key)
    peaks, columns = folded.peak, folded.columns
    asked = np.zeros(len(cluster.nominal))
    for column, peak in zip(columns, peaks.tolist(), strict=True):
        np.add.at(asked, column.rows, (column.wire + column.hbm * hbm) * sent_per_s * peak)
    eased = np.divide(cluster.nominal, asked, out=np.ones_like(asked), where=asked > cluster.nominal)
    if cluster.machine.node.has_bus:
        for column in columns:
            bus = column.rows[column.wire > 0.0]
            eased[bus] = cluster.nominal[bus] / asked[bus]
    alone = folded.speeds(sent_per_s * peaks[:, None], eased=eased)[:, 0]
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
    algorithm, table, call = cluster.algorithms[op.number], cluster.table(op), cluster.call(op)
    if table is None:
        counted = cluster.key_of(op)
        slowest = float(cluster.by_itself(counted).sent_per_s(cluster.cap(counted)).min())
        seconds = call.seconds(algorithm, cluster.library, slowest)
    else:
        seconds = sum(map(table.seconds, call.sizes))
    hops = PerHopCoding.of(op, cluster.schedule.tensors, cluster.schedule.mesh, cluster.machine)
    seconds += hops.added_s(call.volume_bytes(algorithm), cluster.machine)
    work = OpWork(seconds, 0.0, 1.0, -1)
    return PricedOp(key, (work,) * len(cluster.folding.count(key)))
