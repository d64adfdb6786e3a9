"""Calibrated calls: alone they take their table's time, exactly; several at once share the bus; the rest keeps its
law."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.analysis.bytes_moved import traffic
from simfrontier.analysis.step_bounds import bounds
from simfrontier.collectives import (
    Calibration,
    CallTable,
    Library,
    MeasuredPoint,
    call_of,
    load_library,
    machine_numbers,
    messages_of,
)
from simfrontier.cost import Pricing, price
from simfrontier.machine import Machine, load_machine
from simfrontier.network import solve
from simfrontier.schedule.ir import Collective, CollectiveKind, Schedule
from simfrontier.schedule.mesh import Mesh
from simfrontier.simulation import simulate_step
from simfrontier.workload import find_model
from tests.perturbed import perturbed
from tests.simulation.steps import NAMED, schedule

MESH = Mesh((("node", 2), ("package", 2), ("gcd", 2)))
BUS = "link_classes.bus.bytes_per_s"
M = 2**20
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")
SMALL = {"persistence_elements": 128, "prefetch_elements": 20000, "live_elements": 100000}
CODECS = {
    "zeropp": {"weight_codec": "int8:64", "quantised_gradient_codec": "int4:64"},
    "zero-topo": {"weight_codec": "int8:64", "node_gradient_codec": "int4:64", "cross_gradient_codec": "int4:64"},
}


def table(kind: CollectiveKind, ranks: int, *points: tuple[int, float], nodes: int = 1, packages: int = 0) -> CallTable:
    listed = tuple(MeasuredPoint(bytes=size, seconds=seconds) for size, seconds in points)
    return CallTable(kind=kind, ranks=ranks, nodes=nodes, packages=packages or ranks, points=listed)


def calibrated(*calls: CallTable, machine: str = "box", **overrides: float) -> tuple[Machine, Library]:
    """A machine and its library with these tables, as a scenario would load them."""
    known = Calibration(title="test", where="test", when="today", how="by hand", calls=calls)
    plain = load_machine(machine)
    library = load_library(plain.library, None, known)
    measured = machine_numbers(known, plain, library)
    return load_machine(machine, {key.replace("__", "."): v for key, v in overrides.items()}, measured), library


def all_tables(scale: float = 1.0) -> tuple[CallTable, ...]:
    """A table for every kind and size of group: 2 ms, 2.2 ms at 4 KiB, then 1 ms more per 200 KiB; all-to-alls convex,
    so that small messages leave no latency at the rate of large ones."""
    usual = ((64, 2e-3), (4096, 2.2e-3), (4096 + 200 * 1024, 3.2e-3))
    convex = ((64, 1e-5), (4096, 1e-4), (8192, 1e-2))
    return tuple(
        table(kind, ranks, *((size, seconds * scale) for size, seconds in (convex if kind == "all_to_all" else usual)))
        for kind in KINDS
        for ranks in (2, 4, 8)
    )


def tiny(family: str) -> Schedule:
    return schedule(family, MESH, find_model("tiny"), options=CODECS.get(family), **SMALL)  # type: ignore[arg-type]


def collectives(built: Schedule) -> list[Collective]:
    return [op for op in built.distinct_ops() if isinstance(op, Collective)]


def expected_s(op: Collective, built: Schedule, library: Library, packages: int, nodes: int = 1) -> float:
    size = built.mesh.size(op.axes)
    call = call_of(op)
    assert call is not None
    result = library.tables[call, size, nodes, packages]
    return sum(result.seconds(message.num_bytes) for message in messages_of(op, built.tensors, built.mesh))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("family", NAMED)
def test_alone_every_call_takes_its_tables_time(family: str, exact: bool) -> None:
    built = tiny(family)
    machine, library = calibrated(*all_tables())
    pricing = price(built, machine, library, exact=exact)
    seen = set()
    for op in collectives(built):
        wanted = expected_s(op, built, library, packages=built.mesh.size(op.axes))
        for work in pricing.of(op).works:
            assert work.alone_s == pytest.approx(wanted, rel=1e-9)
            assert work.latency_s >= 0.0
        seen.add((call_of(op), op.codec.is_opaque))
    assert ("all_gather", False) in seen or ("all_reduce", False) in seen
    if family == "zeropp":
        assert {("all_gather", True), ("all_to_all", True)} <= seen


def alone_in_the_engine(pricing: Pricing, op: Collective) -> list[float]:
    """Seconds of an op when all its groups run and nothing else, all resources counted: what the engine would do."""
    works = pricing.of(op).works
    flows = [pricing.flows[work.flow] for work in works]
    rows = np.unique(np.concatenate([flow.rows for flow in flows]))
    usage = np.zeros((len(rows), len(flows)))
    for column, flow in enumerate(flows):
        usage[np.searchsorted(rows, flow.rows), column] = flow.load
    rates = solve(usage, pricing.folding.capacity[rows], np.ones(len(flows)), np.array([f.cap for f in flows]))
    return [work.latency_s + work.amount / rate for work, rate in zip(works, rates.tolist(), strict=True)]


def test_neither_the_bus_nor_memory_cuts_a_table() -> None:
    """Memory of 1 kB/s and a bus that a scenario sets to 1 kB/s: far too slow for what was measured."""
    built = tiny("zeropp")
    slow = {"device__hbm_bytes_per_s": 1e3, "link_classes__bus__bytes_per_s": 1e3}
    machine, library = calibrated(*all_tables(), **slow)
    assert machine.node.links[0].bytes_per_s == 1e3
    pricing = price(built, machine, library)
    for op in collectives(built):
        if pricing.of(op).works[0].amount:
            wanted = expected_s(op, built, library, packages=built.mesh.size(op.axes))
            assert alone_in_the_engine(pricing, op) == pytest.approx([wanted] * len(pricing.of(op).works), rel=1e-9)


@pytest.mark.parametrize("family", ["zero3", "hsdp", "zero-topo"])
def test_tables_hold_on_a_machine_of_links_too(family: str) -> None:
    """Two toy nodes with tables a hundred times as fast as their links: the measurement is believed."""
    built = tiny(family)
    groups = ((8, 2, 4), (4, 1, 2), (2, 1, 1), (2, 1, 2), (2, 2, 2), (4, 2, 4))
    shapes = [(kind, ranks, nodes, packages) for kind in KINDS for ranks, nodes, packages in groups]
    tables = [
        table(kind, ranks, (64, 1e-8), (10**6, 1e-6), nodes=nodes, packages=packages)
        for kind, ranks, nodes, packages in shapes
    ]
    machine, library = calibrated(*tables, machine="toy-cluster")
    pricing = price(built, machine, library)
    checked = 0
    for op in collectives(built):
        if pricing.of(op).works[0].amount:
            times = alone_in_the_engine(pricing, op)
            shape = pricing.shape(op.axes)
            wanted = expected_s(op, built, library, shape.num_packages, shape.num_nodes)
            assert times == pytest.approx([wanted] * len(times), rel=1e-9)
            checked += 1
    assert checked > 2


def test_two_calls_at_once_share_the_bus() -> None:
    """Gathers over the world and over pairs, each of which alone fills the bus.

    The world's table: of S bytes in S / 1e9 s each of 8 ranks sends 7/8, so 7e9 bytes/s in all; the bus is set to it.
    The pairs': of S in S / 1.75e9 s each rank sends 1/2, as much in all. At once there are five activities on the bus
    (the world and four pairs), each of which gets a fifth.
    """
    tables = (table("all_gather", 8, (1000, 1e-6), (2000, 2e-6)), table("all_gather", 2, (1000, 1e-6 / 1.75)))
    machine, library = calibrated(*tables)
    assert machine.node.links[0].bytes_per_s == pytest.approx(7e9, rel=1e-12)
    built = tiny("zeropp")
    world = next(op for op in collectives(built) if op.name == "weight_gather" and op.axes == MESH.names)
    pricing, other = price(built, machine, library), price(tiny("zero-topo"), machine, library)
    pairs = next(op for op in collectives(other.schedule) if op.kind == "all_gather" and op.axes == ("gcd",))
    works = [(pricing, pricing.of(world).works), (other, other.of(pairs).works)]
    assert [len(some) for _, some in works] == [1, 1]  # all four pairs are of one class
    flows = [one.flows[some[0].flow] for one, some in works]
    on_bus = [float(f.load[f.rows == one.folding.link_class[0]][0]) for (one, _), f in zip(works, flows, strict=True)]
    assert on_bus == pytest.approx([1.0, 4.0])
    assert [some[0].alone for _, some in works] == pytest.approx([7e9, 7e9 / 4], rel=1e-9)
    rates = solve(np.array([on_bus]), np.array([7e9]), np.ones(2), np.array([flow.cap for flow in flows]))
    assert rates.tolist() == pytest.approx([7e9 / 5] * 2, rel=1e-9)


def test_a_degraded_bus_slows_what_was_measured_on_a_healthy_one() -> None:
    # a call keeps the whole bus, so at a quarter of it all of its time is four times as long
    built = tiny("zero3")
    machine, library = calibrated(table("all_gather", 8, (1000, 1.5e-3), (2000, 2e-3)))
    healthy = price(built, machine, library)
    worse = price(built, machine, library, perturbed(links={(0, "bus"): 0.25}))
    op = next(op for op in collectives(built) if op.name == "weight_gather")
    (good,), (bad,) = healthy.of(op).works, worse.of(op).works
    assert good.latency_s == bad.latency_s == 0.0
    assert bad.alone == pytest.approx(good.alone / 4, rel=1e-9)
    # alone it fills the bus: what it asks per unit of speed, times its speed, is the capacity
    flow = healthy.flows[good.flow]
    bus = healthy.folding.capacity[flow.rows] == machine.link_classes["bus"].bytes_per_s
    assert flow.load[bus] * good.alone == pytest.approx(machine.link_classes["bus"].bytes_per_s, rel=1e-9)


def test_groups_without_a_table_keep_the_librarys_law() -> None:
    built = tiny("zero-topo")
    fast = table("all_gather", 2, (64, 1e-6), (10**6, 2e-6))
    machine, library = calibrated(fast, link_classes__bus__bytes_per_s=2e9)
    ours = price(built, machine, library)
    plain = price(built, load_machine("box"), load_library("gloo"))
    changed = {True: 0, False: 0}
    for op in collectives(built):
        same = [w.alone_s for w in ours.of(op).works] == [w.alone_s for w in plain.of(op).works]
        measured = op.kind == "all_gather" and MESH.size(op.axes) == 2
        assert same != measured
        changed[measured] += 1
    assert min(changed.values()) > 0


@pytest.mark.parametrize("scale", [0.01, 1.0])
@pytest.mark.parametrize("family", NAMED)
def test_bound_analytic_flow_in_this_order_where_groups_are_alike(family: str, scale: float) -> None:
    built = tiny(family)
    machine, library = calibrated(*all_tables(scale))
    flow = simulate_step(built, machine, library, "flow")
    analytic = simulate_step(built, machine, library, "analytic")
    assert bounds(flow).step_s <= analytic.step_s * (1 + 1e-9) <= flow.step_s * (1 + 2e-9)
    exact = simulate_step(built, machine, library, "flow", exact=True)
    assert exact.step_s == pytest.approx(flow.step_s, rel=1e-9)


def test_bytes_follow_the_algorithm() -> None:
    """ZeRO-3's gradients: gloo's reduce-scatters send twice what RCCL's do, everything else as much."""
    built = tiny("zero3")
    by_gloo = simulate_step(built, load_machine("box"), load_library("gloo"), "analytic")
    by_rccl = simulate_step(built, load_machine("box"), load_library("rccl"), "analytic")
    scattered = sum(
        8 * by_rccl.pricing.volume_bytes(op)
        for op in by_rccl.program.ops
        if isinstance(op, Collective) and op.kind == "reduce_scatter"
    )
    assert scattered > 0
    one, two = (
        sum(float(size) for parts in traffic(step).num_bytes.values() for size in parts.values())
        for step in (by_rccl, by_gloo)
    )
    assert two - one == pytest.approx(scattered, rel=1e-12)
    # on the bus as between end points: every byte passes it once
    assert traffic(by_gloo).on_link[0] == pytest.approx(two, rel=1e-12)
