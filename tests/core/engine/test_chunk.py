"""Fidelity `chunk` by hand: what single messages take, what happens where they meet, and what is counted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from simfrontier.core.collectives import Library, algorithm, load_library
from simfrontier.core.engine import Fidelity, SimulatedStep, simulate_step
from simfrontier.core.machine import HEALTHY, Machine, Packets, Perturbation, load_machine
from simfrontier.core.program.ir import Exchange
from simfrontier.core.program.mesh import Mesh
from tests.core.engine.pipelines import Order, Pipeline
from tests.core.engine.singles import calls, single, with_links

MIB = 2**20
GLOO, RCCL, TOY = load_library("gloo"), load_library("rccl"), load_machine("toy-cluster")
PAIR = Mesh((("node", 1), ("gcd", 2)))
BLOCK_S = MIB / 10e9  # of 1 MiB on xgmi of the toy machine


def unpaced(hop_s: float = 0.0) -> Library:
    """A library whose messages cost their links and `hop_s`, by one ring of the ranks."""
    times = replace(GLOO.ring, base_s=0.0, hop_in_node_s=hop_s, hop_between_nodes_s=hop_s, slices=1)
    return replace(GLOO, ring=times, direct=times, reduces_backwards=False)


def pair(machine: Machine, library: Library, num_bytes: int, fidelity: Fidelity = "chunk") -> SimulatedStep:
    """An all-gather of two ranks of a node: one message of half the bytes each way."""
    return simulate_step(calls(PAIR, ("all_gather", ("gcd",), num_bytes, "a", "library")), machine, library, fidelity)


def test_a_message_takes_its_link_its_latency_and_its_hop() -> None:
    """1 MiB at 10 GB/s, 5 us of the link, 20 us of the library."""
    done = pair(with_links(TOY, latency_s=5e-6), unpaced(20e-6), 2 * MIB)
    assert done.step_s == pytest.approx(BLOCK_S + 25e-6)


@pytest.mark.parametrize("cut_through", [True, False])
def test_ways_over_the_network_meet_at_the_nic(cut_through: bool) -> None:
    """Four groups over two nodes, one message of 1 MiB each way; 1 us after every link. Devices 0 and 1 share a NIC.

    Device 1: pcie (p = 1 MiB / 10 GB/s), tx, rx (n = 1 MiB / 1 GB/s), pcie; device 0 has a hop on xgmi (p) before and
    after. Device 1's message comes to tx first and is served first. Cut-through: n and 4 us; device 0's waits at tx
    until n + 1 us, and has 4 links' latency from there: 2 n + 5 us. Store-and-forward: device 1 has 2 p + 2 n + 4 us;
    device 0's message gets tx when device 1's has left it, at p + 1 us + n, and then needs n, n, p, p and 4 us.
    """
    p, n, us = MIB / 10e9, MIB / 1e9, 1e-6
    machine, mesh = with_links(TOY, latency_s=1e-6, cut_through=cut_through), Mesh((("node", 2), ("gcd", 4)))
    done = simulate_step(calls(mesh, ("all_gather", ("node",), 2 * MIB, "a", "library")), machine, unpaced(), "chunk")
    near = n + 4 * us if cut_through else 2 * p + 2 * n + 4 * us
    far = 2 * n + 5 * us if cut_through else (p + us + n) + 2 * n + 2 * p + 4 * us
    assert done.timeline.end[:, 0] == pytest.approx([far, near] * 4)


def test_a_burst_passes_at_once() -> None:
    """1 MiB on an idle link whose bucket holds a quarter of it."""
    done = pair(with_links(TOY, burst_bytes=MIB / 4), unpaced(), 2 * MIB)
    assert done.step_s == pytest.approx(0.75 * BLOCK_S)


def test_where_links_are_shared_chunk_serves_in_turn_and_flow_at_once() -> None:
    """Two all-gathers of a pair at once, of 16 and 2 MiB: blocks of 8 and 1 MiB on the same link, a base of 36 us.

    chunk: the link serves the large block first, so the small one is there after 9 MiB. flow: both have half the link
    until the small one is there, after 2 MiB; the large one is there after 9 MiB. The link carries as much either way.
    """
    both = calls(
        PAIR, ("all_gather", ("gcd",), 16 * MIB, "a", "library"), ("all_gather", ("gcd",), 2 * MIB, "b", "library")
    )
    sharp = replace(RCCL, ring=replace(RCCL.ring, sharpness=math.inf))  # large blocks take c/B, no more
    chunk, flow = (simulate_step(both, TOY, sharp, fidelity).timeline.end[0] for fidelity in ("chunk", "flow"))
    assert chunk == pytest.approx([36e-6 + 8 * BLOCK_S, 36e-6 + 9 * BLOCK_S])
    assert flow == pytest.approx([36e-6 + 9 * BLOCK_S, 36e-6 + 2 * BLOCK_S])


def test_direct_messages_go_out_as_many_at_once_as_there_are_channels() -> None:
    """Eight devices of a node of Frontier, 7 peers, pieces of 2 bytes: with 8 channels one start-up, with 2 four."""
    base, hop = RCCL.direct.base_s, RCCL.direct.hop_in_node_s
    for channels, rounds in ((8, 1), (7, 1), (2, 4), (1, 7)):
        library = replace(RCCL, num_channels=channels)
        done = single("all_to_all", 16, 8, library=library)
        assert done.step_s == pytest.approx(base + rounds * hop, rel=1e-3), channels


def test_headers_and_replies_are_counted_and_take_time() -> None:
    """Packets of 1000 bytes with 66 of headers: 10,000 bytes and 20 of their own are 11 packets, 10,746 bytes; back go
    11 * 54 + 10 = 604. Each way has the other's replies: 11,350 bytes. The last packet goes when it is its turn."""
    packets = Packets(payload_bytes=1000, header_bytes=66, message_bytes=20, reply_bytes=54, reply_message_bytes=10)
    done = pair(replace(TOY, packets=packets), unpaced(), 20_000)
    fabric, carried = done.pricing.fabric, done.link_bytes
    assert carried is not None
    for name in ("xgmi 0>1", "xgmi 1>0"):
        assert carried[fabric.link_named(0, name)] == 10_746 + 604
    assert carried.sum() == 2 * (10_746 + 604)
    assert done.step_s == pytest.approx(10_746 / 10e9)
    slow = simulate_step(
        calls(PAIR, *[("all_gather", ("gcd",), 20_000, "a", "library")] * 2),  # type: ignore[arg-type]
        replace(TOY, packets=packets),
        unpaced(),
        "chunk",
    )
    assert slow.step_s == pytest.approx((2 * 10_746 + 604) / 10e9)  # the second message waits for the reply


def run_pipeline(pipeline: Pipeline, fidelity: str, fault: Perturbation = HEALTHY) -> SimulatedStep:
    return simulate_step(pipeline.schedule(), TOY, RCCL, fidelity, fault)  # type: ignore[arg-type]


def exchanged(step: SimulatedStep) -> list[float]:
    """Seconds of the exchanges of the critical rank."""
    row = step.critical_row
    took = (step.timeline.end - step.timeline.start)[row].tolist()
    return [seconds for op, seconds in zip(step.program.ops, took, strict=True) if isinstance(op, Exchange)]


def test_an_exchange_by_hand() -> None:
    """Two stages on two nodes of 4 devices and 2 NICs of 1 GB/s: an activation of 64 MiB of each of two devices.

    A direct message of RCCL: base and hop, then 2 x 67,108,864 B at the share of the NIC that direct messages reach:
    fluid rates end both then, single messages the one and then the other.
    """
    pipeline = Pipeline(stages=2, micros=1, data=4, message=2**25, axes=("stage", "data", "tensor"))
    hops = RCCL.direct
    share = algorithm("direct").shares_on(RCCL, TOY)["nic"]
    seconds = hops.base_s + hops.hop_between_nodes_s + 2 * 2**26 / (share * 1e9)
    for fidelity in ("flow", "chunk"):
        longest = max(exchanged(run_pipeline(pipeline, fidelity)))
        assert longest == pytest.approx(seconds, rel=0.02), fidelity


@pytest.mark.parametrize("order", ["gpipe", "1f1b"])
def test_a_step_agrees_with_flow(order: Order) -> None:
    """One pair on every link, in one node and over two: single messages and fluid rates agree within 3 %."""
    pipeline = Pipeline(order=order, stages=4, micros=4, rows=8192, step=False)
    chunk, flow = run_pipeline(pipeline, "chunk"), run_pipeline(pipeline, "flow")
    assert chunk.step_s == pytest.approx(flow.step_s, rel=0.03)
