"""What other programs take of the processors: by hand, and on this machine."""

from __future__ import annotations

from simfrontier_real.ranks.hosts import ProcessorTime, others_share


def test_the_share_by_hand() -> None:
    """Two ranks on host a, 10 s on two processors: 20 s in all, 12 s busy, of which the ranks took 4 and 3 s: others
    5 of 20 s, a quarter. On host b 1 of 20 s. The busiest counts."""
    a = [ProcessorTime(4.0, 12.0, 20.0), ProcessorTime(3.0, 12.0, 20.0)]
    b = [ProcessorTime(9.0, 10.0, 20.0)]
    assert others_share(["a", "a"], a) == 0.25
    assert others_share(["a", "b", "a"], [a[0], b[0], a[1]]) == 0.25
    assert others_share(["b"], b) == 0.05
    assert others_share(["b"], [ProcessorTime(10.5, 10.0, 20.0)]) == 0.0  # counted in ticks of 10 ms
