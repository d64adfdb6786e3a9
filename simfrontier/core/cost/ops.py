"""Prices of ops on a schedule's layout: the work of an op on each activity class, for each kind of op."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from simfrontier.base.arrays import Floats
from simfrontier.core.collectives import CallTable, algorithm as algorithm_of, exchanged_bytes
from simfrontier.core.cost.alone import GROUP_WAIT, pattern_key
from simfrontier.core.cost.call import LOCAL, NO_WORK, STILL, OpWork, PricedOp, exchange_latency_s, pair_shape
from simfrontier.core.cost.compute import NO_CODING, Kernel, PerHopCoding
from simfrontier.core.cost.layout import Layout
from simfrontier.core.program import Collective, Compute, Exchange


def priced_compute(layout: Layout, op: Compute) -> PricedOp:
    """Price a kernel: its memory traffic, with a speed capped such that the kernel without contention takes its
    roofline time on a device of the given speed."""
    kernel = Kernel.of(op, layout.schedule, layout.machine)
    speeds, traffic = layout.fabric.speed[layout.folding.representative].tolist(), kernel.num_bytes
    if not traffic:
        waits = {speed: OpWork(kernel.seconds(speed), 0.0, 1.0, -1) if speed else STILL for speed in set(speeds)}
        return PricedOp(LOCAL, tuple([waits[speed] for speed in speeds]))
    works = []
    for cls, (speed, has_part) in enumerate(zip(speeds, layout.has_part(op).tolist(), strict=True)):
        if not has_part:
            works.append(NO_WORK)
            continue
        if not speed:
            works.append(layout.still(LOCAL, cls, traffic))
            continue
        alone = traffic / kernel.seconds(speed)
        units = kernel.arithmetic_s / speed * layout.machine.device.num_compute_units / traffic
        column = layout.column(LOCAL, cls)
        load = column.hbm + column.units * units
        works.append(OpWork(0.0, traffic, alone, layout.intern((cls, alone, units), column.rows, load, alone)))
    return PricedOp(LOCAL, tuple(works))


def priced_exchange(layout: Layout, op: Exchange) -> PricedOp:
    """Price the messages between two ranks as direct messages: like an all-to-all of two ranks by the library's time
    law, with one start-up for both directions, at the share of the links' capacity that direct messages reach.

    Assumed: both directions are sent at once, full duplex, and the smaller message ends with the larger; a send and a
    receive that are issued together have one start-up. Tables of measured calls do not apply to exchanges.
    """
    there, back = exchanged_bytes(op, layout.schedule.tensors, layout.schedule.mesh)
    key, volume = layout.key_of(op), float(max(there, back))
    edges = layout.folded(key).edges
    rates = layout.sent_per_s(key, (True,) * len(edges))

    def latency_s(cls: int, sent_per_s: float) -> float:
        return exchange_latency_s(volume, pair_shape(edges[cls].tolist()), layout.library, sent_per_s)

    runs = [bool(messages.any()) for messages in edges]  # ranks outside all pairs do not
    return PricedOp(key, _works(layout, key, volume, rates, latency_s, runs, (there + back) / volume))


def priced_collective(layout: Layout, op: Collective) -> PricedOp:
    """Price a collective call by the library's time law: a latency, followed by the payload on the call's busiest
    wire."""
    if op.number in layout.small:
        return _small(layout, op)
    table = layout.table(op)
    if table is not None:
        return _measured(layout, op, table)
    name, key, call = layout.algorithms[op.number], layout.key_of(op), layout.call(op)
    coding = PerHopCoding.of(op, layout.schedule.tensors, layout.schedule.mesh, layout.machine)
    hbm = algorithm_of(name).memory_per_byte(op.kind) + coding.hbm_bytes
    runs = layout.runs(op, key)

    def latency_s(cls: int, sent_per_s: float) -> float:
        return call.latency_s(name, layout.library, sent_per_s) + coding.added_s(0.0, layout.machine)

    rates, volume, cap = layout.sent_per_s(key, runs), call.volume_bytes(name), layout.cap(key)
    return PricedOp(key, _works(layout, key, volume, rates, latency_s, runs, hbm, cap, coding))


def _measured(layout: Layout, op: Collective, table: CallTable) -> PricedOp:
    """Price a collective call by measured times: without contention, on a nominal machine, it takes the time in the
    table.

    The call's payload is sent at the rate of the table's largest messages, and the rest of the measured time is
    latency. If nothing is left for latency, the payload is sent at the rate that the measured time implies. If that
    rate would demand more than the nominal capacity of a link or memory, the measurement shows that the excess is not
    needed, and the load is reduced to the capacity. A call on a host with a bus occupies the whole bus for all of its
    time: the ranks share the cores, which copy every message and are woken up for it, so calls take turns.
    """
    name, key, call = layout.algorithms[op.number], layout.key_of(op), layout.call(op)
    by, has_bus = algorithm_of(name), layout.machine.node.has_bus
    seconds, volume = sum(map(table.seconds, call.sizes)), call.volume_bytes(name)
    sent_per_s = by.sent(op.kind, call.shape.size) / table.seconds_per_byte
    latency = seconds - volume / sent_per_s
    if latency < 0.0 or has_bus:
        latency, sent_per_s = 0.0, volume / seconds
    hbm, folded = by.memory_per_byte(op.kind), layout.folded(key)
    asked = np.zeros(len(layout.nominal))
    for column, peak in zip(folded.columns, folded.peak.tolist(), strict=True):
        np.add.at(asked, column.rows, (column.wire + column.hbm * hbm) * sent_per_s * peak)
    eased = np.divide(layout.nominal, asked, out=np.ones_like(asked), where=asked > layout.nominal)
    for column in folded.columns if has_bus else ():
        bus = column.rows[column.wire > 0.0]
        eased[bus] = layout.nominal[bus] / asked[bus]
    rates = folded.speeds(sent_per_s * folded.peak[:, None], eased=eased)[:, 0] / folded.peak
    runs = [True] * len(rates)
    return PricedOp(
        key, _works(layout, key, volume, rates, lambda *_: latency, runs, hbm, sent_per_s, NO_CODING, eased)
    )


def _works(
    layout: Layout,
    key: str,
    volume: float,
    rates: Floats,
    latency_s: Callable[[int, float], float],
    runs: Sequence[bool],
    hbm: float,
    cap: float = math.inf,
    coding: PerHopCoding = NO_CODING,
    eased: Floats | None = None,
) -> tuple[OpWork, ...]:
    """Return the works of the messages of a pattern, one for each activity class.

    volume     bytes that a rank sends
    rates      [num_classes] bytes per second that a rank sends without contention
    latency_s  function that returns the latency in seconds, from a class and its rate
    runs       [num_classes] whether the class takes part
    hbm        bytes of memory traffic per byte that a rank sends
    cap        maximum bytes per second that the library lets a rank send
    eased      [num_link_classes] fraction of the load that counts; None: all
    """
    works = []
    num_units = layout.machine.device.num_compute_units
    each = zip(layout.folded(key).peak.tolist(), rates.tolist(), runs, strict=True)
    for cls, (peak, sent_per_s, has_part) in enumerate(each):
        if not has_part:
            works.append(NO_WORK)
            continue
        if not sent_per_s:
            works.append(layout.still(key, cls, volume * peak))
            continue
        column, per_byte_s = layout.column(key, cls), 1.0 / sent_per_s + coding.seconds
        held, most, speed = layout.reserved_units(key, column), cap * peak, sent_per_s * peak
        if coding.seconds:
            most = speed = peak / per_byte_s
        # coding keeps all units busy for its part of the time; the call's own are the first of them
        units = max(0.0, coding.seconds * num_units - held.max() * per_byte_s)
        load = column.wire + column.hbm * hbm + column.units * units
        if eased is not None:
            load *= eased[column.rows]
        flow = layout.intern((key, cls, hbm, most, coding.seconds, eased is None), column.rows, load, most, held)
        latency = latency_s(cls, sent_per_s)
        works.append(OpWork(latency, volume * peak, speed, flow, layout.starting(key, cls, latency)))
    return tuple(works)


def _small(layout: Layout, op: Collective) -> PricedOp:
    """Price a collective call of a small message: it takes its time without contention and loads no link; the ranks of
    a group still wait for each other."""
    key = pattern_key(op.axes, GROUP_WAIT)
    name, table, call = layout.algorithms[op.number], layout.table(op), layout.call(op)
    if table is None:
        counted = layout.key_of(op)
        slowest = float(layout.by_itself(counted).sent_per_s(layout.cap(counted)).min())
        seconds = call.seconds(name, layout.library, slowest)
    else:
        seconds = sum(map(table.seconds, call.sizes))
    coding = PerHopCoding.of(op, layout.schedule.tensors, layout.schedule.mesh, layout.machine)
    work = OpWork(seconds + coding.added_s(call.volume_bytes(name), layout.machine), 0.0, 1.0, -1)
    return PricedOp(key, (work,) * len(layout.folding.count(key)))
