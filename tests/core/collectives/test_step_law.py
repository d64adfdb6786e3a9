"""Law of single messages of a library: hops, protocol and parts, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from simfrontier.core.collectives import GroupShape, algorithm, load_library

RCCL, GLOO = load_library("rccl"), load_library("gloo")
NODE = GroupShape(size=8, num_nodes=1, num_packages=4)
TWO = GroupShape(size=16, num_nodes=2, num_packages=8)
RATE = 80e9


def rounded(one: float, other: float) -> float:
    """The longer of two times with RCCL's corner: (x^4 + y^4)^(1/4)."""
    return (one**4 + other**4) ** 0.25


def test_large_blocks_go_by_simple_at_a_channels_part_of_the_rate() -> None:
    """4 channels of 20 GB/s each: blocks of 8 MiB in all are paced; half of one has to come before it is passed on."""
    law = algorithm("ring").step_law(RCCL, "all_gather", 64 * 2**20, NODE, RATE, 4)
    assert (law.base_s, law.forwarded_share) == (36e-6, 0.5)
    assert law.bytes_per_s == RATE / 4 and not law.is_added
    block_s = 8 * 2**20 / RATE  # an edge takes (block^4 + (3.6 us + block / 2)^4)^(1/4), half of it to be forwarded
    assert law.hop_in_node_s == pytest.approx(rounded(block_s, 3.6e-6 + block_s / 2) - block_s / 2)


def test_small_blocks_go_by_ll() -> None:
    law = algorithm("ring").step_law(RCCL, "all_gather", 4096, NODE, RATE, 4)
    assert (law.base_s, law.forwarded_share) == (36e-6, 1.0)
    assert law.hop_in_node_s == pytest.approx(0.8e-6)
    assert law.bytes_per_s == RATE / 2 / 4  # of every 16 bytes 8 are flags


def test_an_edge_between_nodes_costs_what_the_slowest_block_lacks() -> None:
    """LL over two nodes, one channel: 14 edges of 0.8 us, 2 of 16.17 + 6.56 = 22.73 us, 3.541 us on average; of 15
    hops a block meets two between nodes: (15 * 3.541 - 13 * 0.8) / 2 = 21.36 us each."""
    law = algorithm("ring").step_law(RCCL, "all_gather", 4096, TWO, RATE, 4)
    assert law.hop_between_nodes_s == pytest.approx(21.36e-6, abs=0.005e-6)


def test_what_a_block_hides_is_not_counted_twice() -> None:
    """Simple, c/B = 100 us, 50 us of it hidden: 3.6 us inside are hidden wholly. A mean edge of (14 * 3.6 + 2 * 171.4)
    / 16 = 24.575 us and half of a block make 74.575 us, which exposes 15 ((100^4 + 74.575^4)^(1/4) - 100) us; a block
    meets two edges between nodes, and each has half of that beside the 50 us that are hidden."""
    law = algorithm("ring").step_law(RCCL, "all_gather", int(16 * 100e-6 * RATE), TWO, RATE, 4)
    exposed = 15 * (rounded(100.0, 74.575) - 100.0)
    assert law.hop_between_nodes_s == pytest.approx((exposed / 2 + 50) * 1e-6)


def test_a_library_that_is_not_paced_adds_its_hops_to_the_links() -> None:
    law = algorithm("ring").step_law(GLOO, "all_gather", 2**20, NODE, RATE, 1)
    assert math.isinf(law.bytes_per_s) and law.is_added and law.hop_in_node_s == GLOO.ring.hop_in_node_s


def test_trees_and_direct_messages_add_theirs() -> None:
    tree, direct = (algorithm(how).step_law(RCCL, "all_reduce", 2**20, TWO, RATE, 4) for how in ("tree", "direct"))  # type: ignore[arg-type]
    chunk_s = 2**20 / RATE  # the message is smaller than 512 KiB in each of 8 channels: all of it
    assert (tree.base_s, tree.hop_in_node_s, tree.hop_between_nodes_s) == (36e-6, 2.5e-6, 171.4e-6 + chunk_s)
    assert (direct.base_s, direct.hop_in_node_s, direct.hop_between_nodes_s) == (33e-6, 3.6e-6, 171.4e-6)
    assert tree.is_added and direct.is_added and math.isinf(tree.bytes_per_s)


def test_parts_of_a_message() -> None:
    """In whole rounds of 8: a tree's channel of 1 MiB has 24 parts, of 128 KiB 24 / sqrt 8 = 8.5, so 8; over several
    nodes of 256 KiB at least, and 8 of them at least: 8 MiB has 24 sqrt 8 = 68, but 32 of 256 KiB."""
    assert [algorithm("tree").slices(RCCL, size, 1) for size in (2**20, 2**17, 1.0, 2**40)] == [24, 8, 8, 128]
    assert [algorithm("tree").slices(RCCL, size, 2) for size in (2**20, 2**23, 2**40)] == [8, 32, 128]
    assert algorithm("tree").slices(replace(RCCL, in_flight=None), 2**17, 1) == 8
    assert (algorithm("direct").slices(RCCL, 2**30, 1), algorithm("ring").slices(RCCL, 2**30, 2)) == (1, 1)
