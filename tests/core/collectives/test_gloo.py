"""gloo: what its calls send, by the byte, and that its rings pay every hop."""

from __future__ import annotations

from fractions import Fraction

import pytest

from simfrontier.core.collectives import algorithm as algorithm_of, load_library
from simfrontier.core.collectives.chosen import allowed_algorithms
from simfrontier.core.collectives.library import GroupShape
from simfrontier.core.collectives.volume import sent_part
from simfrontier.core.program.ir import CollectiveKind

GLOO = load_library("gloo")


def group(size: int) -> GroupShape:
    return GroupShape(size=size, num_nodes=1, num_packages=size)


@pytest.mark.parametrize(
    ("kind", "num_ranks", "counted"),
    [  # bytes that a rank sends per byte of the message, from the counters of the loopback device
        *(("all_gather", 2, 0.501), ("all_gather", 4, 0.752), ("all_gather", 8, 0.877)),
        *(("all_reduce", 2, 1.002), ("all_reduce", 4, 1.503), ("all_reduce", 8, 1.753)),
        *(("reduce_scatter", 2, 1.002), ("reduce_scatter", 4, 1.503), ("reduce_scatter", 8, 1.753)),
        *(("all_to_all", 2, 0.501), ("all_to_all", 4, 0.752), ("all_to_all", 8, 0.877)),
    ],
)
def test_what_a_rank_sends_is_what_was_counted(kind: CollectiveKind, num_ranks: int, counted: float) -> None:
    (algorithm,) = allowed_algorithms(GLOO, kind, False, "library")
    assert float(sent_part(kind, algorithm, num_ranks)) == pytest.approx(counted, rel=0.003)  # headers are 0.2 %


def test_a_reduce_scatter_goes_around_twice() -> None:
    assert allowed_algorithms(GLOO, "reduce_scatter", False, "library") == ("ring_twice",)
    assert sent_part("reduce_scatter", "ring_twice", 8) == 2 * sent_part("reduce_scatter", "ring", 8) == Fraction(7, 4)
    # coded gradients cannot be summed on the way: they are sent directly
    assert allowed_algorithms(GLOO, "reduce_scatter", True, "library") == ("direct",)
    twice = algorithm_of("ring_twice").latency_s(GLOO, "reduce_scatter", 1e6, group(8), 1e9)
    assert twice == algorithm_of("ring").latency_s(GLOO, "all_reduce", 1e6, group(8), 1e9)


def test_a_ring_pays_every_hop() -> None:
    # no LL, and no part of a hop hidden: 2.74 ms + 7 hops of 1.34 ms, whatever the size; twice around: + 14
    for size in (1e3, 1e9):
        assert algorithm_of("ring").latency_s(GLOO, "all_gather", size, group(8), 1e9) == pytest.approx(
            12.12e-3, rel=1e-12
        )
        assert algorithm_of("ring").latency_s(GLOO, "all_reduce", size, group(8), 1e9) == pytest.approx(
            21.50e-3, rel=1e-12
        )
