"""The engine against closed forms and bounds: collectives and kernels by hand, lanes as FIFOs."""

import math
from dataclasses import astuple

import pytest

from simfrontier.answers.step.exposed_time import exposure
from simfrontier.core.engine import SimulatedStep
from simfrontier.core.program.ir import Collective, Compute
from simfrontier.core.program.mesh import Mesh
from tests.core.engine.singles import single
from tests.core.engine.steps import NAMED, frontier_mesh, schedule, step
from tests.core.plan.test_precision import built
from tests.perturbed import perturbed
from tests.some import some


def collectives(done: SimulatedStep) -> list[tuple[Collective, float, float]]:
    """Every collective of rank class 0 with its duration and the bytes that a rank sends."""
    out = []
    for index, op in enumerate(done.program.ops):
        if isinstance(op, Collective):
            spent = float(done.timeline.end[0, index] - done.timeline.start[0, index])
            out.append((op, spent, done.pricing.volume_bytes(op)))
    return out


@pytest.mark.parametrize("family", NAMED)
def test_flow_is_the_closed_form_without_overlap(family: str) -> None:
    """One lane: nothing runs at once but the groups of one collective, so flow = the sum of times alone."""
    done = step(schedule(family, frontier_mesh(8), overlap=False), overrides={"host.hook_s": 0.0})
    folding = done.pricing.folding
    closed = 0.0
    for op in done.program.ops:
        if op.lane != "host":
            priced = done.pricing.of(op)
            closed += max(priced.works[group].alone_s for group in folding.activity_of(priced.pattern).tolist())
    assert done.step_s == pytest.approx(closed, rel=1e-6)


def test_ring_all_gather_by_hand() -> None:
    """World all-gather of ZeRO-3's qkv weight on 48 nodes of Frontier, every number written out.

    S = 18432 * 6144 * 2 B = 226,492,416 B; n = 384; c = S / n = 589,824 B. The ring sends (n-1) c per rank at
    B = 4 NICs * 25 GB/s * 0.864 = 86.4 GB/s, so c / B = 6.827 us. RCCL takes Simple: it believes LL to need 23.5 ms and
    Simple 3.5 ms. An edge is 3.6 us in nodes (7 of 8) and 171.4 us between them, 24.575 us on average, and half of a
    block has to come before the next edge starts: 27.99 us, the longer of the two, its corner rounded off. Base 36 us.
    """
    size, ranks = 18432 * 6144 * 2, 384
    block_s = size / ranks / 86.4e9
    edge_s = (7 * 3.6e-6 + 171.4e-6) / 8 + block_s / 2
    by_hand = 36e-6 + (ranks - 1) * (edge_s**4 + block_s**4) ** 0.25
    done = step(schedule("zero3", frontier_mesh(48), overlap=False))
    alone = [t for op, t, _ in collectives(done) if [r.name for r in op.dst] == ["qkv.weight.full.forward"]]
    assert alone
    assert alone[-1] == pytest.approx(by_hand, rel=1e-6)


def test_pair_all_gather_by_hand() -> None:
    """Pair gather of ZeRO-topo in fp16 on one package: V = S/2, capped at 129 GB/s; one step of a ring.

    c = S/2 = 113 MB, c/B = 878 us; an edge of 3.6 us and half a block, 443 us, rounds it up to 892 us; base 36 us.
    """
    done = step(schedule("zero-topo", frontier_mesh(2), overlap=False, options={"weight_codec": "fp16"}))
    times = [(t, v) for op, t, v in collectives(done) if [r.name for r in op.dst] == ["qkv.weight.full.forward"]]
    for spent, volume in some(times):
        assert volume == 18432 * 6144 * 2 / 2
        block_s = volume / 129e9
        assert spent == pytest.approx(36e-6 + (block_s**4 + (3.6e-6 + block_s / 2) ** 4) ** 0.25, rel=1e-6)


@pytest.mark.parametrize("family", ["zero3", "zeropp"])
def test_exposure_sums_to_the_step(family: str) -> None:
    done = step(schedule(family, frontier_mesh(4)))
    parts = exposure(done)
    assert sum(astuple(parts)) == pytest.approx(done.step_s, rel=1e-9)
    assert parts.compute == pytest.approx(done.compute_s, rel=1e-9)
    assert min(parts.inter_node, parts.intra_node, parts.package, parts.codec, parts.idle) >= 0.0


def test_lanes_are_fifos_and_waits_are_kept() -> None:
    """Read off the timeline alone: ops of a lane do not overlap, and no op starts before what it waits for is done."""
    done = step(schedule("zeropp", frontier_mesh(2), grad_accum=2))
    program, time = done.program, done.timeline
    by_lane: dict[int, list[int]] = {}
    for index, lane in enumerate(program.lane):
        by_lane.setdefault(lane, []).append(index)
    for cls in range(done.pricing.folding.num_rank_classes):
        for ops in by_lane.values():
            assert (time.end[cls, ops[:-1]] <= time.ready[cls, ops[1:]] + 1e-12).all()
        for index, waits in enumerate(program.waits):
            for lane, count in waits:
                assert time.end[cls, by_lane[lane][count - 1]] <= time.ready[cls, index] + 1e-12
    assert max(map(len, by_lane.values())) > 1 and any(program.waits)


def test_contention_for_memory_slows_both() -> None:
    """A kernel that needs all of the device memory's bandwidth slows down while a collective runs beside it."""
    built = schedule("zero3", frontier_mesh(2))
    flow, alone = step(built), step(built, fidelity="analytic")
    assert flow.compute_s > 1.005 * alone.compute_s


def test_ring_all_reduce_by_hand() -> None:
    """All-reduces of 64 MiB by ring over 48 nodes: 8 rings of 48 ranks, two of them on each NIC.

    c = S / 48. A ring gets half of a NIC's 25 GB/s * 0.864 = 10.8 GB/s; both rounds send (n-1) c. All 48 edges are
    between nodes: 171.4 us, and half of a block, with the corner rounded off; base once.
    """
    done = single("all_reduce", 64 * 2**20, 384, fidelity="flow", via="ring", axes=("node",))
    block_s = 64 * 2**20 / 48 / (25e9 * 0.864 / 2)
    edge_s = 171.4e-6 + block_s / 2
    assert done.step_s == pytest.approx(36e-6 + 2 * 47 * (block_s**4 + edge_s**4) ** 0.25, rel=1e-6)


def test_a_step_of_days_ends() -> None:
    """A NIC at a hundred-thousandth of its speed: times beyond 8192 s, where a double resolves 2e-12 s, must not keep a
    flow from ending."""
    done = step(schedule("zero3", frontier_mesh(2)), perturbation=perturbed(links={(0, "nic0>net"): 1e-7}))
    assert done.step_s > 1e5


def test_a_product_by_hand() -> None:
    """h_to_4h of one sequence: m = 32, n = 256, k = 64, so 1,048,576 operations and an edge of 2^(19/3).

    Rates: 2, 1, 0.5 Tflop/s x / (x + 100). Traffic: 32·64 + 256·64 + 256 + 32·256 = 26,880 numbers at 100 GB/s.
    """
    edge, pair = 2 ** (19 / 3), Mesh((("node", 1), ("package", 1), ("gcd", 2)))
    assert math.isclose(edge, 80.635, rel_tol=1e-5)
    for precision, rate, size in (("fp16", 2e12, 2), ("bf16", 2e12, 2), ("fp32", 1e12, 4), ("fp64", 0.5e12, 8)):
        done = step(built("ddp", precision, pair, "tiny"), "toy-pair")
        (op, *_) = [op for op in done.program.ops if isinstance(op, Compute) and op.name == "h_to_4h"]
        (work, *_) = done.pricing.of(op).works
        math_s = 2 * 32 * 256 * 64 / (rate * edge / (edge + 100))
        memory_s = 26_880 * size / 100e9
        assert work.alone_s == pytest.approx(1e-6 + max(math_s, memory_s), rel=1e-12)
        assert math_s > memory_s
