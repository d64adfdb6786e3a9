"""Links as FIFO servers, worked by hand: queues, token buckets, cut-through, store-and-forward, what is counted."""

from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.machine import Packets, load_machine
from simfrontier.core.network import Fabric
from simfrontier.core.network.servers import Server, servers_of
from tests.core.engine.singles import with_links
from tests.perturbed import perturbed

PACKETS = Packets(payload_bytes=1000, header_bytes=66, message_bytes=0, reply_bytes=66, reply_message_bytes=0)


def test_one_link_serves_in_order_of_arrival() -> None:
    """100 B/s, 0.1 s: 50 bytes take 0.5 s; 30 bytes that come at 0.2 s wait for them; 10 bytes at 2 s do not wait."""
    link = Server(bytes_per_s=100.0, latency_s=0.1)
    assert link.serve(0.0, 50.0, 0.0) == pytest.approx((0.1, 0.6))
    assert link.serve(0.2, 30.0, 0.2) == pytest.approx((0.6, 0.9))
    assert link.serve(2.0, 10.0, 2.0) == pytest.approx((2.1, 2.2))
    assert link.num_bytes == 90.0


def test_an_idle_link_lets_a_burst_through_at_once() -> None:
    """100 B/s, burst 50: 80 bytes at 0 need tokens for 30 more: 0.3 s. 20 bytes then take 0.2 s. By 10 s the bucket is
    full: 30 bytes leave at once, and of the next 40 the 20 that are left of it: 0.2 s."""
    link = Server(bytes_per_s=100.0, burst_bytes=50.0)
    assert link.serve(0.0, 80.0, 0.0)[1] == pytest.approx(0.3)
    assert link.serve(0.3, 20.0, 0.3)[1] == pytest.approx(0.5)
    assert link.serve(10.0, 30.0, 10.0)[1] == 10.0
    assert link.serve(10.0, 40.0, 10.0)[1] == pytest.approx(10.2)


@given(
    st.lists(st.tuples(st.floats(0, 5), st.integers(1, 500)), min_size=1, max_size=12),
    st.floats(1, 1000),
    st.floats(0, 800),
)
def test_no_link_carries_more_than_burst_and_rate_allow(
    messages: list[tuple[float, int]], rate: float, burst: float
) -> None:
    """From a message's arrival to the end of a later one: at most burst + rate * time; and nobody overtakes."""
    link, now, done = Server(bytes_per_s=rate, burst_bytes=burst), 0.0, list[tuple[float, int, float]]()
    for gap, size in messages:
        now += gap
        done.append((now, size, link.serve(now, float(size), now)[1]))
    for first in range(len(done)):
        for last in range(first, len(done)):
            carried = sum(size for _, size, _ in done[first : last + 1])
            assert carried <= (burst + rate * (done[last][2] - done[first][0])) * (1 + 1e-9) + 1e-6
    tails = [tail for _, _, tail in done]
    assert tails == sorted(tails)


def two_hops(first: Server, second: Server, num_bytes: float) -> float:
    head, tail = first.serve(0.0, num_bytes, 0.0)
    return second.serve(head, num_bytes, tail)[1]


@pytest.mark.parametrize(
    ("cut_through", "packet", "second_rate", "by_hand"),
    [
        # 100 bytes over 100 B/s, then 0.1 s, then the second link.
        (True, 0.0, 50.0, 0.1 + 2.0),  # the head is there at 0.1; the second link takes 2 s
        (True, 0.0, 200.0, 1.1),  # faster than what comes: the tail passes as it arrives
        (True, 10.0, 50.0, 0.2 + 2.0),  # the first packet is there at 0.1 + 0.1
        (True, 10.0, 200.0, 1.1 + 0.05),  # the last packet has to pass the second link too
        (False, 0.0, 50.0, 1.1 + 2.0),
        (False, 10.0, 200.0, 1.1 + 0.5),
    ],
)
def test_two_hops_by_hand(cut_through: bool, packet: float, second_rate: float, by_hand: float) -> None:
    first = Server(bytes_per_s=100.0, latency_s=0.1, cut_through=cut_through, packet_bytes=packet)
    second = Server(bytes_per_s=second_rate, packet_bytes=packet)
    assert two_hops(first, second, 100.0) == pytest.approx(by_hand)


def test_every_link_of_a_fabric_has_its_server() -> None:
    machine = with_links(load_machine("toy-cluster"), latency_s=1e-6, burst_bytes=512.0, cut_through=False)
    slow = perturbed(links={(1, "xgmi 0>1"): 0.5})
    fabric = Fabric.build(machine, 2, slow)
    servers = servers_of(fabric)
    assert len(servers) == fabric.num_links
    one, other = servers[fabric.link_named(0, "xgmi 0>1")], servers[fabric.link_named(1, "xgmi 0>1")]
    assert (one.bytes_per_s, other.bytes_per_s) == (10e9, 5e9)
    assert (one.latency_s, one.burst_bytes, one.cut_through, one.packet_bytes) == (1e-6, 512.0, False, 0.0)
    framed = replace(machine, packets=PACKETS)
    assert {server.packet_bytes for server in servers_of(Fabric.build(framed, 1))} == {1066.0}
