"""Fidelity `chunk` on links that change within a step, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.collectives import load_library
from simfrontier.core.engine import JobStopsError, simulate_step
from simfrontier.core.machine import DegradedLink, Perturbation, load_machine
from simfrontier.core.network.servers import ChangingServer, Server
from simfrontier.core.program.mesh import Mesh
from tests.core.engine.singles import calls, with_links

MIB = 2**20
GLOO, TOY = load_library("gloo"), load_machine("toy-cluster")
PAIR = Mesh((("node", 1), ("gcd", 2)))
BLOCK_S = MIB / 10e9  # of 1 MiB on xgmi of the toy machine
WIRE = "xgmi 0>1"

TIMES = replace(GLOO.ring, base_s=0.0, hop_in_node_s=0.0, hop_between_nodes_s=0.0, slices=1)
FREE = replace(GLOO, ring=TIMES, direct=TIMES, reduces_backwards=False)  # messages cost their links only


def took(*links: DegradedLink, machine_latency_s: float = 0.0) -> float:
    """An all-gather of two ranks of a node: one message of 1 MiB each way."""
    one = calls(PAIR, ("all_gather", ("gcd",), 2 * MIB, "a", "library"))
    machine = with_links(TOY, latency_s=machine_latency_s)
    return simulate_step(one, machine, FREE, "chunk", Perturbation(links=links)).step_s


def ill(factor: float, from_s: float, until_s: float | None = None) -> DegradedLink:
    return DegradedLink(node=0, link=WIRE, factor=factor, from_s=from_s, until_s=until_s)


# ── one link ──


def link(*later: tuple[float, float], rate: float = 100.0, burst: float = 0.0) -> ChangingServer:
    return ChangingServer(bytes_per_s=rate, burst_bytes=burst, later=later)


def test_what_is_being_served_goes_on_at_the_new_rate() -> None:
    """100 B/s until 1 s, then 10 B/s, from 3 s on 100 B/s: 150 bytes have 100 by 1 s, 120 by 3 s, 150 by 3.3 s. 20
    bytes that come at 2 s wait for them: 3.5 s."""
    changing = link((1.0, 10.0), (3.0, 100.0))
    assert changing.serve(0.0, 150.0, 0.0) == pytest.approx((0.0, 3.3))
    assert changing.serve(2.0, 20.0, 2.0) == pytest.approx((3.3, 3.5))
    assert changing.num_bytes == 170.0


def test_a_dead_link_waits_until_it_is_back() -> None:
    """100 B/s, dead from 1 s to 5 s: 150 bytes at 0 have 100 by 1 s and 150 by 5.5 s. What comes at 2 s to an idle one
    goes at 5 s; 100 bytes at 0 are through at 1 s."""
    assert link((1.0, 0.0), (5.0, 100.0)).serve(0.0, 150.0, 0.0) == pytest.approx((0.0, 5.5))
    assert link((1.0, 0.0), (5.0, 100.0)).serve(2.0, 50.0, 2.0) == pytest.approx((5.0, 5.5))
    assert link((1.0, 0.0), (5.0, 100.0)).serve(0.0, 100.0, 0.0) == pytest.approx((0.0, 1.0))
    assert link((5.0, 100.0), rate=0.0).serve(2.0, 50.0, 2.0) == pytest.approx((5.0, 5.5))


@given(
    messages=st.lists(st.tuples(st.floats(0, 5), st.integers(1, 500), st.floats(0, 5)), min_size=1, max_size=8),
    moments=st.lists(st.floats(0.1, 20), min_size=1, max_size=4, unique=True),
    burst=st.floats(0, 800),
    packet=st.sampled_from([0.0, 30.0]),
)
def test_a_change_to_the_same_rate_is_none(
    messages: list[tuple[float, int, float]], moments: list[float], burst: float, packet: float
) -> None:
    steady = Server(bytes_per_s=70.0, burst_bytes=burst, latency_s=0.1, packet_bytes=packet)
    changing = ChangingServer(
        bytes_per_s=70.0,
        burst_bytes=burst,
        latency_s=0.1,
        packet_bytes=packet,
        later=tuple((moment, 70.0) for moment in sorted(moments)),
    )
    now = 0.0
    for gap, size, behind in messages:
        now += gap
        expected = steady.serve(now, float(size), now + behind)
        assert changing.serve(now, float(size), now + behind) == pytest.approx(expected, abs=1e-9)


# ── a step ──


def test_a_link_at_a_tenth_from_half_time_on() -> None:
    """Half of the message at the whole rate, half at a tenth: 0.5 + 5 of its healthy time; and its latency."""
    assert took(ill(0.1, BLOCK_S / 2), machine_latency_s=5e-6) == pytest.approx(5.5 * BLOCK_S + 5e-6)


def test_a_link_that_stays_dead_stops_the_job() -> None:
    message = "rank 0 lost rank 1; dead, and single messages keep to their routes: node 0 xgmi 0>1$"
    with pytest.raises(JobStopsError, match=rf"^the job stops at .* of the step in all_gather 0: {message}"):
        took(ill(0.0, BLOCK_S / 2))
