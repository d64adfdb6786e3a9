"""Compute units: a collective holds those of its channels while it runs, and kernels share the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest

from simfrontier.core.collectives import Library, load_library
from simfrontier.core.engine import Fidelity, simulate_step
from simfrontier.core.machine import load_machine
from simfrontier.core.program.ir import Call, Compute, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import REPLICATE
from tests.core.engine.singles import calls

MESH = Mesh((("package", 8), ("gcd", 2)))  # two nodes
EDGE = 4096
UNITS, HELD = 110, 8
Times = Mapping[str, tuple[float, float]]


def product(name: str, lane: str = "compute", edge: int = EDGE) -> Compute:
    """A product of square matrices: its operands are read and written once."""
    return Compute(
        kind="matmul",
        name=name,
        reads=(Ref("a"), Ref("b")),
        writes=(Ref(f"{name}.out"),),
        iteration=(("m", edge), ("n", edge), ("k", edge)),
        matmul=((), ("m",), ("n",), ("k",)),
        flops=2 * edge**3,
        lane=lane,
    )


def made(*ops: Op, messages: Schedule | None = None) -> Schedule:
    names = ["a", "b", *(ref.name for op in ops if isinstance(op, Compute) for ref in op.writes)]
    tensors = {
        name: Tensor(name=name, shape=(EDGE, EDGE), dtype="fp16", role="activation", placement=REPLICATE)
        for name in names
    }
    sent = messages.tensors if messages is not None else {}
    gathers = messages.roles[0].calls[0].ops if messages is not None else ()
    role = Role("all", (Call("step", 0, 0, (*gathers, *ops)),))
    return Schedule(mesh=MESH, tensors={**tensors, **sent}, roles=(role,), pools={}, meta={})


def gathers(*sizes: int, axes: tuple[str, ...] = MESH.names) -> Schedule:
    """All-gathers over some axes, by default over all ranks, each on a lane of its own."""
    return calls(MESH, *(("all_gather", axes, size, f"lane{n}", "ring") for n, size in enumerate(sizes)))


def times(schedule: Schedule, fidelity: Fidelity = "flow", library: Library | None = None) -> Times:
    """When every op starts and ends on rank 0."""
    done = simulate_step(schedule, load_machine("frontier"), library or load_library("rccl"), fidelity)
    result, program = done.timeline, done.program
    assert program is not None
    return {op.name: (float(result.start[0, i]), float(result.end[0, i])) for i, op in enumerate(program.ops)}


def taken(result: Times, name: str) -> float:
    return result[name][1] - result[name][0]


def math_s() -> float:
    """Seconds of one product on all units: 2 · 4096³ over 131.5 TF · 4096 / (4096 + 1326), as Frontier's file says."""
    return 2 * EDGE**3 / (131.5e12 * EDGE / (EDGE + 1326))


def test_a_product_beside_a_gather_has_102_of_110_units_and_the_gather_is_as_fast_as_alone() -> None:
    """By hand. The product has 2 · 4096³ = 137.4 GFlop: 1.384 ms on 110 units, with 72.8 GB/s of operands (3 · 33.6 MB)
    out of a memory of 1,393 GB/s. The gather of 1 GiB over the two GCDs of a package sends 537 MB a rank at 129 GB/s,
    4.16 ms and its start-up, and holds 8 units all the while. So the product takes 1.384 ms · 110/102 = 1.492 ms, ends
    long before the gather, and does not slow it. Were units shared at equal speeds in bytes/s, both would go at the y
    of y (110/72.8 + 8/129) = 110: 69.9 GB/s, of which the product hardly notices anything, and the gather 2.3 times."""
    size = 1 << 30
    sent_s = size / 2 / 129e9
    assert math_s() == pytest.approx(1.3835e-3, rel=1e-3) and sent_s == pytest.approx(4.162e-3, rel=1e-3)
    one = made(product("product"), messages=gathers(size, axes=("gcd",)))
    beside, alone = times(one), times(one, "analytic")
    assert taken(beside, "product") == pytest.approx(math_s() * UNITS / (UNITS - HELD), rel=1e-9)
    assert taken(beside, "all_gather 0") == pytest.approx(taken(alone, "all_gather 0"), rel=1e-9)
    assert taken(alone, "all_gather 0") >= sent_s


def test_units_are_held_while_a_call_starts_up() -> None:
    """A ring over 16 ranks of 64 KiB has blocks of 4 KiB: its 15 steps are start-up, 1,000 us here, and no transfer to
    speak of. A product that runs for all of it loses 8 of 110 units for that long: 1,000 us · 8/110 = 73 us."""
    library = load_library("rccl")
    slow = replace(library, ring=replace(library.ring, base_s=1e-3), ring_ll=None, tuning=None)
    one = made(product("product"), messages=gathers(64 << 10))
    result = times(one, library=slow)
    started_s = taken(result, "all_gather 0")
    assert 1e-3 < started_s < math_s()
    # of the product's arithmetic is left what 102/110 of the units did not do in that time; all of them do the rest
    expected = started_s + (math_s() - started_s * (UNITS - HELD) / UNITS)
    capped = math_s() + load_machine("frontier").device.kernel_gap_s  # alone: its own rate has the gap in it
    rest = (1 - started_s * (UNITS - HELD) / UNITS / math_s()) * capped
    assert taken(result, "product") == pytest.approx(started_s + rest, rel=1e-9)
    assert taken(result, "product") == pytest.approx(expected, rel=3e-3)
