"""From what the library chose to recipes: orders of the links or of the ranks, as members of groups; slices; forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simfrontier.collectives import Library, load_library
from simfrontier.collectives.lowering import Recipe, lower
from simfrontier.collectives.lowering.store import load_lowered
from simfrontier.collectives.lowering.transfers import Lowered, Transfer
from simfrontier.machine import load_machine
from simfrontier.network import Fabric
from simfrontier.schedule import digest, load
from simfrontier.schedule.mesh import Mesh
from simfrontier.simulation.lowering import lowered_schedule, recipe
from simfrontier.simulation.transfer_lists import TransferLists
from simfrontier.trace.links import load_links
from tests.invoke import TOY, invoke
from tests.simulation.singles import single
from tests.simulation.steps import schedule, step

RCCL, GLOO = load_library("rccl"), load_library("gloo")
FRONTIER = load_machine("frontier")
CHAIN = [0, 1, 5, 4, 6, 7, 3, 2]  # Frontier's first


def made(
    ranks: list[int], algorithm: str = "ring", library: Library = RCCL, num_nodes: int = 2, num_bytes: int = 2**20
) -> Recipe:
    return recipe(Fabric.build(FRONTIER, num_nodes), np.array(ranks), algorithm, library, num_bytes)


def test_a_ring_over_two_nodes_runs_through_the_nodes_chains() -> None:
    result = made(list(range(16)))
    assert result.per_node == 8 and result.slices == 1 and len(result.orders) == 4
    assert list(result.orders[0]) == CHAIN + [8 + position for position in CHAIN]


def test_members_are_numbered_as_the_group_lists_them() -> None:
    """A group that lists its ranks backwards: member m is rank 15 - m."""
    result = made(list(range(16))[::-1])
    assert list(result.orders[0]) == [15 - rank for rank in [*CHAIN, *(8 + position for position in CHAIN)]]


def test_a_part_of_a_node_keeps_its_part_of_the_chains() -> None:
    """Ranks 0, 4, 6 of either node, in the first chain's order; the others are left out."""
    assert made([0, 4, 6, 8, 12, 14]).orders[0] == (0, 1, 2, 3, 4, 5)
    assert made([0, 4, 6, 8, 12, 14]).orders[2] == (2, 0, 1, 5, 3, 4)  # the third chain begins 7 6 0 1 3 2 4 5


def test_inside_a_node_the_rings_are_used() -> None:
    assert [list(order) for order in made(list(range(8)), num_nodes=1).orders] == [list(o) for o in FRONTIER.node.rings]


def test_a_library_that_follows_the_ranks_has_one_ring() -> None:
    for algorithm in ("ring", "ring_twice"):
        assert made(list(range(16)), algorithm, GLOO).orders == (tuple(range(16)),)


def test_direct_messages_deal_the_nodes_members_out() -> None:
    result = made([0, 1, 2, 3, 8, 9, 10, 11], "direct")
    assert result.orders == ((0, 4, 1, 5, 2, 6, 3, 7),) and result.slices == 1


def test_parts_of_a_tree_grow_as_the_square_root_of_its_bytes() -> None:
    """Four chains inside a node: 4 MiB are 1 MiB each: 24 parts; 16 MiB twice as many; 1 GiB would be 384: 128 at most.
    Over nodes two trees, and parts of 256 KiB at least, but 8 of them: 32 MiB are 4 MiB each, 16 parts and not 48."""
    inside = {2**20: 16, 4 * 2**20: 24, 16 * 2**20: 48, 2**30: 128}
    assert {size: made(list(range(8)), "tree", num_nodes=1, num_bytes=size).slices for size in inside} == inside
    sizes = {2**20: 8, 8 * 2**20: 8, 32 * 2**20: 16, 2**30: 128}
    assert {size: made(list(range(16)), "tree", num_bytes=size).slices for size in sizes} == sizes
    alone = replace(RCCL, in_flight=None)  # 2 MiB are 512 KiB each: 24 / sqrt 2 parts
    assert made(list(range(8)), "tree", alone, num_nodes=1, num_bytes=2 * 2**20).slices == 17
    assert made(list(range(16)), "ring", replace(RCCL, ring=replace(RCCL.ring, slices=3))).slices == 3


def test_every_recipe_of_a_schedule_can_be_lowered() -> None:
    """zeropp has rings, trees and coded reductions, over several axes; recipes[i][g] is of that op's g-th group."""
    done = step(schedule("zeropp", Mesh((("node", 2), ("package", 4), ("gcd", 2)))), fidelity="analytic")
    result = lowered_schedule(done.pricing, "abc")
    assert result.digest == "abc"
    sizes = {len(recipes): recipes[0].size for recipes in result.recipes}
    assert all(groups * size == 16 for groups, size in sizes.items()) and len(sizes) > 1
    assert {one.algorithm for recipes in result.recipes for one in recipes} == {"ring", "tree", "direct"}
    assert all(one.fault() is None for recipes in result.recipes for one in recipes)


def chain(*channels: int) -> TransferLists:
    """Messages from member 0 to member 1 on these channels, of which none needs another's bytes."""
    parts = len(channels)
    transfers = tuple(Transfer(0, 1, i, i, 1, False, channel) for i, channel in enumerate(channels))
    return TransferLists.of(
        Lowered(kind="all_gather", size=2, parts=parts, transfers=transfers), apart=True, in_flight=2
    )


def test_messages_on_one_connection_go_in_order_and_two_at_a_time() -> None:
    """Each needs its two members; from the second on the one before has to start, from the third on the one before that
    to arrive."""
    form = chain(0, 0, 0, 0)
    assert form.needs == [2, 3, 4, 4]
    assert form.following == [1, 2, 3, -1]
    assert form.followers == [[2], [3], [], []]
    assert form.of_member == [[0, 1, 2, 3], [0, 1, 2, 3]]


def test_channels_have_connections_of_their_own_or_share_one() -> None:
    assert chain(0, 1, 0, 1).following == [2, 3, -1, -1]
    lowered = chain(0, 1, 0, 1).lowered
    shared = TransferLists.of(lowered, apart=False, in_flight=None)
    assert shared.following == [1, 2, 3, -1] and shared.followers == [[], [], [], []]


def test_sizes_are_those_of_whole_elements() -> None:
    """Ring of 2 in 2 parts: 5 elements of 2 bytes in a piece are 3 and 2; as an all-reduce, 10 in 4 chunks 3 3 2 2."""
    ring = Recipe(algorithm="ring", orders=((0, 1), (1, 0)), per_node=2)
    assert sorted(TransferLists.of(lower("all_gather", ring), True, None).sizes(20, 2)) == [4.0, 4.0, 6.0, 6.0]
    reduced = TransferLists.of(lower("all_reduce", ring), True, None).sizes(20, 2)
    assert sorted(reduced) == [4.0] * 4 + [6.0] * 4 and sum(reduced) == 2 * 20


@pytest.mark.parametrize("plan", ["zero3", "zeropp"])
def test_export_writes_how_a_plan_is_lowered_and_what_links_carry(plan: str, tmp_path: Path) -> None:
    ran = invoke("export", TOY, "--plans", plan, "--devices", "8", "--fidelity", "chunk", "--out", tmp_path)
    assert (ran.code, ran.err) == (0, "")
    stems = ("links", "lowered", "schedule", "trace")
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{stem}-{plan}.json" for stem in stems]
    digested = digest(load(tmp_path / f"schedule-{plan}.json"))
    lowered, links = load_lowered(tmp_path / f"lowered-{plan}.json"), load_links(tmp_path / f"links-{plan}.json")
    assert (lowered.digest, links.digest, links.title) == (digested, digested, f"toy {plan} 8")
    assert max(link.num_bytes for link in links.links) > 0.0


def test_the_scenario_may_say_chunk(tmp_path: Path) -> None:
    options = ("--plans", "ddp", "--devices", "4", "--set", "run.fidelity=chunk", "--out", tmp_path)
    assert invoke("run", TOY, *options).code == 0
    assert "every message is simulated" in (tmp_path / "index.html").read_text()


def test_gloo_rings_take_the_ranks_way_between_frontiers_devices() -> None:
    """Eight devices in their order: 1>2 has no link of its own and goes by way of others, which carry its bytes too."""
    done = single("all_gather", 2**20, 8, library="gloo")
    assert done.link_bytes is not None
    fabric = done.pricing.fabric
    way = [fabric.machine.node.links[wire].name for wire in fabric.machine.node.route(1, 2)]
    assert len(way) > 1
    for name in way:
        assert done.link_bytes[fabric.link_named(0, name)] >= 7 * 2**17
