"""Tuning models of RCCL and NCCL: predicted times by hand, and the protocol they choose."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.collectives import GroupShape, load_library
from simfrontier.core.collectives.tuning import WAYS, AlgorithmTuning, TuningModel

RCCL, NCCL = load_library("rccl").tuning, load_library("nccl").tuning
assert RCCL is not None and NCCL is not None
MIB = 2**20


def gcds(size: int) -> GroupShape:
    return GroupShape(size=size, num_nodes=size // 8, num_packages=size // 2)


def a100s(size: int) -> GroupShape:
    return GroupShape(size=size, num_nodes=size // 4, num_packages=size)


def test_rings_of_rccl_by_hand() -> None:
    """64 MiB over 1,024 GCDs on 128 nodes, index floor(log2(2^26 / 2^6)) = 20.

    Simple: (17 + 896 max(3.6, 3 * 2) + 127 * 19.8) * 0.87 = 6879.6 us; 252 GB/s * 1 * 1024 / 1023 is 266.0 us more.
    LL: 12 + 896 max(0.8, 2) + 127 * 9.5 = 3010.5 us; 252 * 0.2 * 0.3 = 15.12 GB/s * 1024 / 1023 is 4434.1 us more."""
    simple = RCCL.predicted_s("ring_simple", "all_gather", 64 * MIB, gcds(1024))
    low = RCCL.predicted_s("ring_ll", "all_gather", 64 * MIB, gcds(1024))
    assert simple == pytest.approx(((17 + 896 * 6 + 127 * 19.8) * 0.87 + 266.05) * 1e-6, rel=1e-4)
    assert low == pytest.approx((3010.5 + 4434.1) * 1e-6, rel=1e-4)
    assert not RCCL.takes_ll("ring", "all_gather", 64 * MIB, gcds(1024))
    assert RCCL.takes_ll("ring", "all_gather", 32 * MIB, gcds(1024))


def test_an_all_reduce_of_rccl_crosses_nodes_twice_per_node() -> None:
    """16 GCDs on 2 nodes: 30 steps, 2 k = 4 between nodes: LL is 12 + 26 * 2 + 4 * 9.5 = 102 us, and 1 KiB at
    252 * 0.2 * 0.1 (index 4) * 16 / 30 = 2.688 GB/s is 0.381 us more."""
    value = RCCL.predicted_s("ring_ll", "all_reduce", 1024, gcds(16))
    assert value == pytest.approx(102.381e-6, rel=1e-4)


def test_trees_by_hand() -> None:
    """128 MiB over 16 GCDs: 17 + 2 (7 * 2.5 + 1 * 22.4) = 96.8 us; 252 * 1.75 * 0.8 (index 21) / 2 = 176.4 GB/s.

    NCCL, 512 MiB over 128 A100 on 32 nodes: 8.4 + 2 (3 * 4 + 5 * 14) = 172.4 us; 96 * 0.92 / 2 = 44.16 GB/s, no
    correction from index 23 on: 12157 us."""
    tree = RCCL.predicted_s("tree_simple", "all_reduce", 128 * MIB, gcds(16))
    assert tree == pytest.approx((96.8 + 128 * MIB / 176.4e3) * 1e-6, rel=1e-9)
    tree = NCCL.predicted_s("tree_simple", "all_reduce", 512 * MIB, a100s(128))
    assert tree == pytest.approx((172.4 + 512 * MIB / 44.16e3) * 1e-6, rel=1e-9)


def test_an_all_reduce_of_nccl_counts_its_edges_and_a_factor() -> None:
    """128 A100 on 32 nodes: 254 steps, 62 between nodes: (8.4 + 192 * 6 + 62 * 14) * 1.4 us, at 96 * 128 / 254 GB/s."""
    value = NCCL.predicted_s("ring_simple", "all_reduce", 512 * MIB, a100s(128))
    assert value == pytest.approx(((8.4 + 192 * 6 + 62 * 14) * 1.4 + 512 * MIB / (96e3 * 128 / 254)) * 1e-6, rel=1e-9)


@pytest.mark.parametrize(("devices", "last_ll_mib"), [(16, 2), (64, 8), (256, 32), (1024, 128)])
def test_nccl_changes_its_protocol_where_the_measured_times_jump(devices: int, last_ll_mib: int) -> None:
    """All-gathers on Perlmutter: a step takes 5 to 6 us more from one size to the next exactly here."""
    assert NCCL.takes_ll("ring", "all_gather", last_ll_mib * MIB, a100s(devices))
    assert not NCCL.takes_ll("ring", "all_gather", 2 * last_ll_mib * MIB, a100s(devices))


@pytest.mark.parametrize(
    ("kind", "last_ll"), [("all_gather", 256 * 1024), ("reduce_scatter", 256 * 1024), ("all_reduce", 128 * 1024)]
)
def test_in_one_node_rccl_goes_by_its_blocks(kind: str, last_ll: int) -> None:
    """Blocks of 32 KiB, the two rounds of an all-reduce counted together: the measured times jump there."""
    assert RCCL.takes_ll("ring", kind, last_ll, gcds(8))  # type: ignore[arg-type]
    assert not RCCL.takes_ll("ring", kind, last_ll + 8, gcds(8))  # type: ignore[arg-type]
    assert not RCCL.takes_tree(2**30, gcds(8)) and RCCL.takes_tree(2**30, gcds(16))


@given(
    size=st.sampled_from([8, 16, 64, 1024, 75264]),
    num_bytes=st.floats(0, 2**40),
    way=st.sampled_from(sorted(WAYS)),
    tuning=st.sampled_from([RCCL, NCCL]),
)
def test_what_is_believed_is_a_time(size: int, num_bytes: float, way: str, tuning: TuningModel) -> None:
    value = tuning.predicted_s(way, "all_reduce", num_bytes, gcds(size))  # type: ignore[arg-type]
    assert 0.0 < value < math.inf


def test_a_cap_holds_a_rate_down() -> None:
    """LL of NCCL: half of 96 GB/s, but at most 22.5 GB/s on two nodes and 19 GB/s on more."""
    low = NCCL.ways["ring_ll"]
    assert isinstance(low, AlgorithmTuning)
    assert (low.cap_bytes_per_s, low.cap_more_nodes_bytes_per_s) == (22.5e9, 19e9)
    two, more = (NCCL.predicted_s("ring_ll", "all_gather", 2**40, a100s(n)) for n in (8, 12))
    assert two == pytest.approx(2**40 / (22.5e9 * 8 / 7), rel=1e-3)
    assert more == pytest.approx(2**40 / (19e9 * 12 / 11), rel=1e-3)
