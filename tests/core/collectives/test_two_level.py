"""Two-level collectives: the times of two calls added by hand, their loads, and halving between nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from simfrontier.core.collectives import GroupShape, Library, algorithm, load_library
from simfrontier.core.collectives.algorithms.two_level import two_level_of, with_rates
from simfrontier.core.collectives.laws import LevelRates
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import load_machine
from simfrontier.core.network import Fabric
from simfrontier.core.program.ir import CollectiveKind
from tests.core.engine.singles import single

US, MIB = 1e-6, 2**20
FRONTIER = load_machine("frontier")
MPI_RCCL = load_library("hierarchical-mpi-rccl")
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")
RING = """
name = "plain"
title = "Rings of round numbers"
num_channels = { value = 1, kind = "assumed", source = "test" }
units_per_channel = { value = 0, kind = "assumed", source = "test" }
[algorithms]
kind = "assumed"
source = "test"
all_gather = ["ring"]
reduce_scatter = ["ring"]
all_reduce = ["ring"]
all_to_all = ["direct"]
[ring]
base_s = { value = 0, kind = "assumed", source = "test" }
forwarded_share = { value = 1.0, kind = "assumed", source = "test" }
hop_in_node_s = { value = 2e-6, kind = "assumed", source = "test" }
hop_between_nodes_s = { value = 10e-6, kind = "assumed", source = "test" }
[ring_ll]
base_s = { value = 0, kind = "assumed", source = "test" }
hop_in_node_s = { value = 1e-6, kind = "assumed", source = "test" }
hop_between_nodes_s = { value = 1e-6, kind = "assumed", source = "test" }
rate_share = { value = 0.1, kind = "assumed", source = "test" }
[shares]
nic = { value = 0.8, kind = "assumed", source = "test" }
[direct]
base_s = { value = 0, kind = "assumed", source = "test" }
hop_in_node_s = { value = 1e-6, kind = "assumed", source = "test" }
hop_between_nodes_s = { value = 1e-6, kind = "assumed", source = "test" }
"""
TWO = """
name = "two"
title = "Two levels of round numbers"
[levels.between]
library = "PLAIN"
low_latency = false
kind = "assumed"
source = "test"
[levels.inside]
library = "PLAIN"
kind = "assumed"
source = "test"
[levels]
rate_share = { value = 0.5, kind = "assumed", source = "test" }
forwarded_share = { value = 0.5, kind = "assumed", source = "test" }
[levels.all_gather]
base_s = { value = 100e-6, kind = "assumed", source = "test" }
reorder_bytes_per_s = { value = 1e12, kind = "assumed", source = "test" }
[levels.reduce_scatter]
base_s = { value = 200e-6, kind = "assumed", source = "test" }
reorder_bytes_per_s = { value = 0.5e12, kind = "assumed", source = "test" }
hop_between_nodes_s = { value = 30e-6, kind = "assumed", source = "test" }
"""
GROUP = GroupShape(size=12, num_nodes=3, num_packages=6)
RATES = LevelRates(between=1e9, inside=10e9)


def written(folder: Path, text: str = TWO, ring: str = RING) -> Path:
    (folder / "plain.toml").write_text(ring, encoding="utf-8")
    path = folder / "two.toml"
    path.write_text(text.replace("PLAIN", str(folder / "plain.toml")), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return load_library(str(written(tmp_path_factory.mktemp("two"))))


# ── the law ──


def test_the_cap_is_the_volume_over_the_time_of_both_calls(two: Library) -> None:
    """3 nodes of 4 ranks send 2/12 of S at 1 GB/s and then 3/4 of S at 10 GB/s, together 11/12 of S:
    (11/12) / (2/12 + 0.075) ns per byte."""
    cap = algorithm("two_level").cap_bytes_per_s(with_rates(two, GROUP, RATES), GROUP)
    assert cap == pytest.approx((11 / 12) / (2 / 12 + 0.075) * 1e9)


def test_an_all_gather_is_its_two_calls_and_what_is_around_them(two: Library) -> None:
    """12 MB over 3 nodes of 4 ranks.
    Between: 2 steps of 1 MB at 1 GB/s: the longer of 1000 us and 10 us + 500 us:                 2000 us
    Inside: LL takes 3 (1 us + 3 MB / 1 GB/s); Simple 3 (2 us + 3 MB / 10 GB/s), which is less:    906 us
    Beside: 100 us, and 12 MB / 1 TB/s:                                                            112 us"""
    took = seconds(two, "all_gather", 12e6)
    assert took == pytest.approx((2000 + 906 + 112) * US)


def test_a_reduce_scatter_has_numbers_of_its_own(two: Library) -> None:
    """120 kB: between 2 steps of 10 kB, 30 us + 5 us each; inside 3 steps of 30 kB, 2 us + 3 us; 200 us + 0.24 us."""
    assert seconds(two, "reduce_scatter", 120e3) == pytest.approx((70 + 15 + 200.24) * US)


@given(num_bytes=st.integers(1, 2**34))
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(num_bytes: int) -> None:
    groups = EqualGroups(FRONTIER, 32)
    halves = [groups.seconds(MPI_RCCL, kind, num_bytes) for kind in ("reduce_scatter", "all_gather")]
    assert groups.seconds(MPI_RCCL, "all_reduce", num_bytes) == pytest.approx(sum(halves))


def seconds(library: Library, kind: CollectiveKind, num_bytes: float) -> float:
    known = with_rates(library, GROUP, RATES)
    cap = algorithm("two_level").cap_bytes_per_s(known, GROUP)
    return algorithm("two_level").latency_s(known, kind, num_bytes, GROUP, cap) + 11 / 12 * num_bytes / cap


# ── on a machine ──


def fabric(num_nodes: int) -> Fabric:
    return Fabric.build(FRONTIER, num_nodes)


def rates_on(num_nodes: int, library: Library) -> LevelRates:
    """Of one group of all devices of so many nodes."""
    groups = EqualGroups(FRONTIER, 8 * num_nodes)
    return two_level_of(algorithm("two_level").knowing(library, groups)).rates[groups.shape]


def test_all_devices_of_a_node_share_its_nics(two: Library) -> None:
    """Between: 8 rings over 4 NICs of 25 GB/s, at 0.8 and half of that: 25 * 4 / 8 * 0.4 = 5 GB/s. With links' own
    shares inside."""
    assert rates_on(4, two).between == pytest.approx(5e9)


@pytest.mark.parametrize("num_nodes", [1, 2, 4])
def test_every_rank_sends_the_volume_to_other_ranks(num_nodes: int) -> None:
    """Payload between endpoints: the volume of each of n ranks; (k-1)/(n-1) of it between nodes."""
    size = 8 * num_nodes
    pattern = algorithm("two_level").loads(fabric(num_nodes), np.arange(size)[None, :], MPI_RCCL)
    assert pattern.edges.sum() == size * pattern.divisor
    assert pattern.edges[0, 2] * (size - 1) == size * (num_nodes - 1) * pattern.divisor


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_ranks", [16])
@pytest.mark.parametrize("fidelity", ["analytic", "flow"])
def test_a_plans_call_alone_takes_the_two_calls(kind: CollectiveKind, num_ranks: int, fidelity: str) -> None:
    for size in (MIB, 256 * MIB):
        alone_s = EqualGroups(FRONTIER, num_ranks).seconds(MPI_RCCL, kind, size)
        took = single(kind, size, num_ranks, fidelity=fidelity, library=MPI_RCCL).step_s  # type: ignore[arg-type]
        assert took == pytest.approx(alone_s, rel=1e-9)


# ── recursive halving between nodes ──

HALVING = TWO.replace("low_latency = false", 'low_latency = false\nalgorithm = "halving"')
FOUR = GroupShape(size=16, num_nodes=4, num_packages=8)
HALVING_FRONTIER = load_library("hierarchical-halving-mpi-rccl")


def test_rounds_of_halving_take_the_place_of_steps_of_rings(tmp_path: Path) -> None:
    """16 MB over 4 nodes of 4 ranks: log2 4 = 2 rounds of 1 us for single messages, where a reduce-scatter's own number
    is 30 us, then 3 steps inside.
    Between: 2 × 1 us, and 3/16 of 16 MB at 1 GB/s:                                                3002 us
    Inside: LL takes 3 (1 us + 4 MB / 1 GB/s); Simple 3 (2 us + 4 MB / 10 GB/s), which is less:    1206 us
    Beside: 100 us, and 16 MB / 1 TB/s:                                                             116 us"""
    known = with_rates(load_library(str(written(tmp_path, HALVING))), FOUR, RATES)
    cap = algorithm("two_level").cap_bytes_per_s(known, FOUR)
    took = algorithm("two_level").latency_s(known, "all_gather", 16e6, FOUR, cap) + 15 / 16 * 16e6 / cap
    assert took == pytest.approx((3002 + 1206 + 116) * US)
    gathered = algorithm("two_level").latency_s(known, "all_gather", 16e6, FOUR, cap)
    scattered = algorithm("two_level").latency_s(known, "reduce_scatter", 16e6, FOUR, cap)
    assert scattered - gathered == pytest.approx(2 * (30 - 1) * US + (200 + 32 - 100 - 16) * US)


def test_the_rate_between_nodes_is_that_of_all_rounds_one_after_the_other() -> None:
    """On 4 nodes of one group of nodes both rounds go from NIC to NIC, two GCDs to each NIC of 25 GB/s of which
    Cray-MPICH reaches 0.872: 10.9 GB/s for each, as of rings."""
    rings, halves = (rates_on(4, library) for library in (MPI_RCCL, HALVING_FRONTIER))
    assert halves.between == pytest.approx(0.872 * 25e9 / 2)
    assert halves.between == pytest.approx(rings.between) and halves.inside == rings.inside


def test_what_a_round_sends_from_group_to_group_holds_up_that_round_alone() -> None:
    """256 nodes in two groups of 128: 1/2 + 1/4 + ... of the bytes go to nearer nodes, and the last 1/256 of
    255/256, from all 1,024 ranks of a group to the other, over their links of 100 GB/s, of which 0.932 are reached
    and which take the 0.23 of the traffic that goes by no third group."""
    rates = rates_on(256, HALVING_FRONTIER)
    near = 0.872 * 25e9 / 2
    far = 100e9 * 0.932 / 0.23 / 1024
    assert 1 / rates.between == pytest.approx((254 / 255) / near + (1 / 255) / far)


@given(nodes=st.sampled_from([2, 4, 8, 16]), stride=st.sampled_from([1, 2, 4, 8]))
def test_two_levels_never_send_more_between_nodes_than_flat_rings(nodes: int, stride: int) -> None:
    """Of S bytes a flat ring sends k (n-1)/n S between its k nodes, each of them (n-1)/n S; two levels p k (k-1)/n S,
    k - 1 pieces of S/n for every rank: (n - p)/n for a node, equal where p = 1."""
    ranks, machine = np.arange(8 * nodes).reshape(-1, stride).T, fabric(nodes)
    flat = algorithm("ring").loads(machine, ranks, load_library("rccl"))
    for library in (MPI_RCCL, HALVING_FRONTIER):
        levels = algorithm("two_level").loads(machine, ranks, library)
        ours = levels.edges[:, 2] * flat.divisor
        theirs = flat.edges[:, 2] * levels.divisor
        assert (ours <= theirs).all()
        assert (ours == theirs).all() == (stride == 8)


# ── a large group ──


def test_a_flat_ring_of_the_whole_machine_waits_for_75_263_edges() -> None:
    """RCCL with LL, of which blocks of 2 KiB and less take one channel. One edge in eight lies between nodes:
    (9,408 × (16.17 + 6.56) us + 65,856 × 0.8 us) / 75,264 = 3.541 us; 75,263 of them and 36 us: 266.6 ms.
    An all-reduce goes around twice: 533.0 ms. The bytes, 75,264 of a message, take next to nothing."""
    group = GroupShape(size=75_264, num_nodes=9_408, num_packages=37_632)
    rccl = load_library("rccl")
    edge = (9_408 * 22.73 + 65_856 * 0.8) / 75_264
    once = algorithm("ring").latency_s(rccl, "all_gather", 75_264.0, group, 1e15)
    assert once == pytest.approx((36 + 75_263 * edge) * US, rel=1e-6)
    assert once == pytest.approx(0.2666, rel=1e-3)
    twice = algorithm("ring").latency_s(rccl, "all_reduce", 75_264.0, group, 1e15)
    assert twice == pytest.approx((36 + 2 * 75_263 * edge) * US, rel=1e-6)
