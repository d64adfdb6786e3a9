"""What a collective takes: by its library's law, as it was measured, or alone where it is small."""

from __future__ import annotations

import numpy as np

from simfrontier.core.collectives import CallTable, algorithm as algorithm_of
from simfrontier.core.cost.call import NO_WORK, OpWork, PricedOp
from simfrontier.core.cost.choice import GROUP_WAIT, pattern_key
from simfrontier.core.cost.compute import PerHopCoding
from simfrontier.core.cost.folded_pricing import FoldedPricing
from simfrontier.core.program import Collective


def priced_collective(pricing: FoldedPricing, op: Collective) -> PricedOp:
    """A call by the library's law: a latency, and then the payload on its busiest wire."""
    if op.number in pricing.small:
        return _small(pricing, op)
    table = pricing.table(op)
    if table is not None:
        return _measured(pricing, op, table)
    algorithm = pricing.algorithms[op.number]
    key = pattern_key(op.axes, algorithm)
    call = pricing.call(op)
    volume = call.volume_bytes(algorithm)
    hops = PerHopCoding.of(op, pricing.schedule.tensors, pricing.schedule.mesh, pricing.machine)
    hbm = algorithm_of(algorithm).memory_per_byte(op.kind) + hops.hbm_bytes
    runs = pricing.runs(op, key)
    works = []
    each = zip(pricing.folded(key).peak.tolist(), pricing.sent_per_s(key, runs).tolist(), strict=True)
    for cls, (peak, sent_per_s) in enumerate(each):
        if not runs[cls]:
            works.append(NO_WORK)
            continue
        if not sent_per_s:
            works.append(pricing.still(key, cls, volume * peak))
            continue
        latency = call.latency_s(algorithm, pricing.library, sent_per_s) + hops.added_s(0.0, pricing.machine)
        column, per_byte_s = pricing.column(key, cls), 1.0 / sent_per_s + hops.seconds
        held = pricing.reserved_units(column)
        # coding keeps all units busy for its part of the time; the call's own are the first of them
        units = max(0.0, hops.seconds * pricing.machine.device.num_compute_units - held.max() * per_byte_s)
        cap, speed = pricing.cap(key) * peak, sent_per_s * peak
        if hops.seconds:
            cap = speed = peak / per_byte_s
        load = column.wire + column.hbm * hbm + column.units * units
        flow = pricing.intern((key, cls, hbm, cap, hops.seconds), column.rows, load, cap, held)
        works.append(OpWork(latency, volume * peak, speed, flow, pricing.starting(key, cls, latency)))
    return PricedOp(key, tuple(works))


def _measured(pricing: FoldedPricing, op: Collective, table: CallTable) -> PricedOp:
    """A call of which times were measured: alone, on a machine as it should be, it takes the table's time.

    It flows at the rate of the table's largest messages, and what is left of its time is latency; where nothing is
    left, at the rate that its time asks for. What that rate asks of a link or memory beyond its nominal capacity,
    the measurement shows not to be asked, and is cut off. A call on a host with a bus keeps the whole bus for all
    of its time: there the ranks share the cores, which copy and are woken up for every message, so calls take
    turns.
    """
    algorithm, key = pricing.algorithms[op.number], pricing.key_of(op)
    call, by = pricing.call(op), algorithm_of(algorithm)
    seconds, volume = sum(map(table.seconds, call.sizes)), call.volume_bytes(algorithm)
    sent_per_s = by.sent(op.kind, call.shape.size) / table.seconds_per_byte
    latency = seconds - volume / sent_per_s
    if latency < 0.0 or pricing.machine.node.has_bus:
        latency, sent_per_s = 0.0, volume / seconds
    hbm, folded = by.memory_per_byte(op.kind), pricing.folded(key)
    peaks, columns = folded.peak, folded.columns
    asked = np.zeros(len(pricing.nominal))
    for column, peak in zip(columns, peaks.tolist(), strict=True):
        np.add.at(asked, column.rows, (column.wire + column.hbm * hbm) * sent_per_s * peak)
    eased = np.divide(pricing.nominal, asked, out=np.ones_like(asked), where=asked > pricing.nominal)
    if pricing.machine.node.has_bus:
        for column in columns:
            bus = column.rows[column.wire > 0.0]
            eased[bus] = pricing.nominal[bus] / asked[bus]
    alone = folded.speeds(sent_per_s * peaks[:, None], eased=eased)[:, 0]
    works = []
    for cls, (column, peak, speed) in enumerate(zip(columns, peaks.tolist(), alone.tolist(), strict=True)):
        if not speed:
            works.append(pricing.still(key, cls, volume * peak))
            continue
        load = (column.wire + column.hbm * hbm) * eased[column.rows]
        flow = pricing.intern(
            (key, cls, hbm, sent_per_s), column.rows, load, sent_per_s * peak, pricing.reserved_units(column)
        )
        works.append(OpWork(latency, volume * peak, speed, flow, pricing.starting(key, cls, latency)))
    return PricedOp(key, tuple(works))


def _small(pricing: FoldedPricing, op: Collective) -> PricedOp:
    """A call that takes its time alone and loads nothing; its groups still wait for each other."""
    key = pattern_key(op.axes, GROUP_WAIT)
    algorithm, table, call = pricing.algorithms[op.number], pricing.table(op), pricing.call(op)
    if table is None:
        counted = pricing.key_of(op)
        slowest = float(pricing.by_itself(counted).sent_per_s(pricing.cap(counted)).min())
        seconds = call.seconds(algorithm, pricing.library, slowest)
    else:
        seconds = sum(map(table.seconds, call.sizes))
    hops = PerHopCoding.of(op, pricing.schedule.tensors, pricing.schedule.mesh, pricing.machine)
    seconds += hops.added_s(call.volume_bytes(algorithm), pricing.machine)
    work = OpWork(seconds, 0.0, 1.0, -1)
    return PricedOp(key, (work,) * len(pricing.folding.count(key)))
