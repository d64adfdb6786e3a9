"""A library's latencies by hand on round numbers: rings, trees and direct messages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simfrontier.core.collectives import Residual, algorithm as algorithm_of, load_library
from simfrontier.core.collectives.algorithms.tree import double_tree
from simfrontier.core.collectives.library import GroupShape, Library
from tests.some import some

US = 1e-6
FILE = """
name = "round"
title = "Round numbers"
num_channels = { value = 4, kind = "assumed", source = "test" }
units_per_channel = { value = 1, kind = "assumed", source = "test" }
[ring]
base_s = { value = 10e-6, kind = "assumed", source = "test" }
forwarded_share = { value = 0.5, kind = "assumed", source = "test" }
hop_in_node_s = { value = 6e-6, kind = "assumed", source = "test" }
hop_between_nodes_s = { value = 40e-6, kind = "assumed", source = "test" }
[ring_ll]
base_s = { value = 5e-6, kind = "assumed", source = "test" }
hop_in_node_s = { value = 1e-6, kind = "assumed", source = "test" }
hop_between_nodes_s = { value = 4e-6, kind = "assumed", source = "test" }
rate_share = { value = 0.01, kind = "assumed", source = "test" }
[shares]
nic = { value = 0.6, kind = "assumed", source = "test" }
[ring_caps]
ranks_4_packages_2_bytes_per_s = { value = 50e9, kind = "assumed", source = "test" }
[tree]
bandwidth_ratio = { value = 0.5, kind = "assumed", source = "test" }
base_s = { value = 7e-6, kind = "assumed", source = "test" }
hop_in_node_s = { value = 2e-6, kind = "assumed", source = "test" }
hop_between_nodes_s = { value = 20e-6, kind = "assumed", source = "test" }
[direct]
base_s = { value = 3e-6, kind = "assumed", source = "test" }
hop_in_node_s = { value = 1e-6, kind = "assumed", source = "test" }
hop_between_nodes_s = { value = 5e-6, kind = "assumed", source = "test" }
"""


def written(folder: Path, text: str = FILE) -> Path:
    path = folder / "round.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Library:
    return load_library(str(written(tmp_path_factory.mktemp("library"))))


def group(size: int, num_nodes: int = 1, num_packages: int = 1) -> GroupShape:
    return GroupShape(size=size, num_nodes=num_nodes, num_packages=num_packages)


TWO_NODES = group(8, 2, 4)  # 8 edges of the closed ring: 6 inside the nodes, 2 between them


def test_edges_of_a_closed_ring() -> None:
    assert TWO_NODES.ring_edges == (6, 2)
    assert group(8).ring_edges == (8, 0)
    assert group(4, 4).ring_edges == (0, 4)
    assert TWO_NODES.ring_mean(6.0, 40.0) == (6 * 6 + 2 * 40) / 8


# A ring passes blocks of c = S / n. A Simple step costs max(c/B, a + f c/B) with a the mean over the closed ring, so
# beyond c/B: max(0, a - (1 - f) c/B). Here a = (6 * 6 + 2 * 40) / 8 = 14.5 us.


def test_a_simple_ring_hides_part_of_each_hop(library: Library) -> None:
    # S = 8 MB: c = 1 MB, c/B = 10 us at 100 GB/s, of which (1 - f) = 5 us hide what a hop costs:
    # 10 + 7 (14.5 - 5) = 76.5 us. LL would cost 5 + 7 (1.75 + 990) us.
    value = algorithm_of("ring").latency_s(library, "all_gather", 8e6, TWO_NODES, 100e9)
    assert value == pytest.approx(76.5 * US, rel=1e-12)
    assert algorithm_of("ring").latency_s(library, "reduce_scatter", 8e6, TWO_NODES, 100e9) == value


def test_an_all_reduce_goes_around_twice_and_starts_once(library: Library) -> None:
    # 10 + 2 * 66.5 = 143 us
    assert algorithm_of("ring").latency_s(library, "all_reduce", 8e6, TWO_NODES, 100e9) == pytest.approx(
        143 * US, rel=1e-12
    )


def test_large_blocks_hide_all_hops(library: Library) -> None:
    # S = 8 GB: (1 - f) c/B = 5 ms is more than any hop: the base is left
    assert algorithm_of("ring").latency_s(library, "all_gather", 8e9, TWO_NODES, 100e9) == pytest.approx(
        10 * US, rel=1e-12
    )


def test_small_blocks_take_the_low_latency_protocol(library: Library) -> None:
    # S = 8 kB: c = 1 kB, c/B = 0.01 us, LL at a hundredth of the rate 1 us, a_LL = (6 * 1 + 2 * 4) / 8 = 1.75 us:
    # 5 + 7 (1.75 + 1 - 0.01) = 24.18 us, where Simple would take 10 + 7 (14.5 - 0.005) = 111.465 us
    assert algorithm_of("ring").latency_s(library, "all_gather", 8e3, TWO_NODES, 100e9) == pytest.approx(
        24.18 * US, rel=1e-12
    )
    # twice around: 5 + 2 * 19.18
    assert algorithm_of("ring").latency_s(library, "all_reduce", 8e3, TWO_NODES, 100e9) == pytest.approx(
        43.36 * US, rel=1e-12
    )


@pytest.mark.parametrize(
    ("shape", "hops_us", "left_us"),
    [
        (group(4), 7 + 2 * 3 * 2, 7 + 2 * 3 * 2),  # along the chain of the node and back
        (TWO_NODES, 7 + 2 * (3 * 2 + 1 * 20), 7 + 2 * 3 * 2 + 20),  # and one level of nodes
        (group(64, 16, 32), 7 + 2 * (3 * 2 + 4 * 20), 7 + 2 * 3 * 2 + 5 * 20),  # 16 nodes: four levels
        (group(12, 3, 6), 7 + 2 * (3 * 2 + 2 * 20), 7 + 2 * 3 * 2 + 20),  # 3 nodes: 0-2-1, two levels
        (group(16, 16, 16), 7 + 2 * 4 * 20, 7 + 5 * 20),  # one rank on each node
        (group(48, 48, 48), 7 + 2 * 6 * 20, 7 + 9 * 20),  # 48 nodes: six levels
    ],
)
def test_a_tree_goes_up_and_down_its_levels(
    library: Library, shape: GroupShape, hops_us: float, left_us: float
) -> None:
    """All 2 d hops of a message that takes no time; of a large one those that its busiest link has to wait for:
    2 d - 3, or one."""
    for size, us in ((1e-3, hops_us), (1e9, left_us)):
        assert algorithm_of("tree").latency_s(library, "all_reduce", size, shape, 100e9) == pytest.approx(
            us * US, rel=1e-6
        )


def test_a_tree_hides_half_of_its_bytes_behind_its_hops(library: Library) -> None:
    """One rank on each of 4 nodes, 100 GB/s, 20 us a hop. 4 MB are 40 us: 4 hops and one half of them, 100 us; 16 MB
    are 160 us: one hop and all of them, 180 us, where 4 hops and one half would be 160 us."""
    shape = group(4, 4, 4)
    for size, us in ((4e6, 100), (16e6, 180)):
        taken_s = algorithm_of("tree").latency_s(library, "all_reduce", size, shape, 100e9) + size / 100e9
        assert taken_s == pytest.approx((7 + us) * US, rel=1e-12)


@pytest.mark.parametrize("num_nodes", [1, 2, 3, 5, 8, 48, 65, 9408])
def test_a_tree_is_as_high_as_it_is_laid(num_nodes: int) -> None:
    for parents in some(double_tree(np.arange(num_nodes), np.full(num_nodes, num_nodes))):
        edges, at = 0, np.arange(num_nodes)
        while (parents[at] >= 0).any():
            edges, at = edges + 1, np.where(parents[at] >= 0, parents[at], at)
        assert group(num_nodes, num_nodes, num_nodes).tree_depth == edges


def test_a_tree_reaches_its_share_of_what_rings_reach() -> None:
    """Through the host's memory rings get less of a NIC than single messages do; trees get 0.672 of what rings get."""
    for name, ring in (("rccl-no-gdr", 0.394), ("rccl-one-core", 0.277)):
        library = load_library(name)
        shares = algorithm_of("tree").shares_of(library, {"nic": 0.9, "xgmi4": 0.9})
        assert shares == pytest.approx({"nic": 0.672 * ring, "xgmi4": 0.672 * 0.9}, rel=1e-12)


def test_a_tree_between_nodes_waits_for_a_chunk(tmp_path: Path) -> None:
    """Chunks of 1 MB in 4 channels at 100 GB/s: 40 us for each hop between nodes, 10 us where the message has 1 MB;
    none inside a node. Two such hops and half of the bytes are more than one hop and all of them."""
    chunk = '[tree]\nchunk_bytes = { value = 1e6, kind = "assumed", source = "test" }\n'
    library = load_library(str(written(tmp_path, FILE.replace("[tree]\n", chunk))))
    for size, us in ((8e6, 7 + 2 * 6 + 2 * (20 + 40) + 80 / 2 - 80), (1e6, 7 + 2 * 6 + 2 * (20 + 10) + 10 / 2 - 10)):
        assert algorithm_of("tree").latency_s(library, "all_reduce", size, TWO_NODES, 100e9) == pytest.approx(
            us * US, rel=1e-12
        )
    assert algorithm_of("tree").latency_s(library, "all_reduce", 8e6, group(4), 100e9) == pytest.approx(
        19 * US, rel=1e-12
    )


def test_a_hop_inside_a_node_costs_a_part_of_the_message(tmp_path: Path) -> None:
    """64 MB in 4 channels, 16 MB each: 32 sqrt(16e6 / 2^20) = 125 parts, of 5.12 us at 100 GB/s. A quarter of that on
    each of 6 hops there and back over two nodes, nothing in one node."""
    share = '[tree]\nfill_share = { value = 0.25, kind = "assumed", source = "test" }\n'
    with_share = load_library(str(written(tmp_path, FILE.replace("[tree]\n", share))))
    assert with_share.tree is not None
    plain = replace(with_share, tree=replace(with_share.tree, fill_share=0.0))
    for shape, us in ((TWO_NODES, 6 * 5.12 / 4), (group(4), 0.0)):
        filled, bare = (
            algorithm_of("tree").latency_s(each, "all_reduce", 64e6, shape, 100e9) for each in (with_share, plain)
        )
        assert filled - bare == pytest.approx(us * US, rel=1e-9)


@pytest.mark.parametrize(
    ("shape", "us"),
    [
        (group(4), 3 + 1 * 1),  # 3 near peers in one round of 4
        (group(8), 3 + 2 * 1),  # 7 near peers in two
        (TWO_NODES, 3 + 1 * 1 + 1 * 5),  # 3 near, 4 far
        (group(16, 4, 8), 3 + 1 * 1 + 3 * 5),  # 3 near, 12 far
        (group(4, 4, 4), 3 + 1 * 5),  # 3 far only
        (group(2, 2, 2), 3 + 1 * 5),
    ],
)
def test_direct_messages_go_to_a_few_peers_at_a_time(library: Library, shape: GroupShape, us: float) -> None:
    assert algorithm_of("direct").latency_s(library, "all_to_all", 1e6, shape, 100e9) == pytest.approx(
        us * US, rel=1e-12
    )


def test_shares_are_the_librarys_or_else_the_machines(library: Library) -> None:
    plain = {"nic": 0.9, "xgmi": 0.8}
    assert algorithm_of("ring").shares_of(library, plain) == {"nic": 0.6, "xgmi": 0.8}
    assert algorithm_of("direct").shares_of(library, plain) == {"nic": 0.6, "xgmi": 0.8}
    assert algorithm_of("tree").shares_of(library, plain) == {"nic": 0.3, "xgmi": 0.4}


def test_how_far_off_a_law_is_goes_by_kind_and_size() -> None:
    residual = Residual(model_sd=0.1, run_sd=0.0, small_sd=0.2, small_bytes=1e6, all_reduce_sd=0.15)
    assert [residual.sd("all_gather", size, 2) for size in (1e6, 1e5)] == [0.1, 0.2]
    assert [residual.sd("all_reduce", size, 2) for size in (1e6, 1e5)] == [0.15, 0.2]
    assert replace(residual, all_reduce_sd=0.3).sd("all_reduce", 1e5, 2) == 0.3
    assert residual.sd("all_reduce", 1e5, 1) == 0.1  # in one node the model is as far off as its best
