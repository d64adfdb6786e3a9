"""Calibrated calls take the time of their table when alone, and share the bus when several run at once."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.core.collectives import (
    Calibration,
    CallTable,
    Library,
    MeasuredPoint,
    call_of,
    load_library,
    machine_numbers,
    messages_of,
)
from simfrontier.core.cost import price
from simfrontier.core.machine import Machine, load_machine
from simfrontier.core.network import solve
from simfrontier.core.program.ir import Collective, CollectiveKind, Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import find_model
from tests.core.engine.steps import schedule

MESH = Mesh((("node", 2), ("package", 2), ("gcd", 2)))
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
    return [op for op in built.ops if isinstance(op, Collective)]


def expected_s(op: Collective, built: Schedule, library: Library, packages: int, nodes: int = 1) -> float:
    size = built.mesh.size(op.axes)
    call = call_of(op)
    assert call is not None
    result = library.tables[call, size, nodes, packages]
    return sum(result.seconds(message.num_bytes) for message in messages_of(op, built.tensors, built.mesh))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("family", ["zero3", "zeropp", "zero-topo"])
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
    rates = solve(np.array([on_bus]), np.array([7e9]), np.array([flow.cap for flow in flows]))
    assert rates.tolist() == pytest.approx([7e9 / 5] * 2, rel=1e-9)
