"""A call alone in closed form is what the simulator makes of it, and groups share what they pass through."""

from __future__ import annotations

import pytest

from simfrontier.collectives import load_library
from simfrontier.cost import EqualGroups
from simfrontier.machine import load_machine
from simfrontier.schedule.ir import CollectiveKind
from tests.network.limits import limits
from tests.simulation.singles import single

FRONTIER, PERLMUTTER = load_machine("frontier"), load_machine("perlmutter")
RCCL, NCCL = load_library("rccl"), load_library("nccl")
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_ranks", [2, 8, 64])
def test_it_is_what_the_simulator_takes(kind: CollectiveKind, num_ranks: int) -> None:
    groups = EqualGroups(FRONTIER, num_ranks)
    for size in (4096, 2**20, 2**26):
        simulated = single(kind, size, num_ranks, fidelity="analytic", library=RCCL).step_s
        assert groups.seconds(RCCL, kind, size) == pytest.approx(simulated, rel=1e-9)


def test_strided_groups_share_the_nics() -> None:
    """64 GCDs on 8 nodes. One group of all: 4 NICs of 25 GB/s carry one ring, 100 GB/s for a rank. 8 groups of one GCD
    of each node: two of them on each NIC, 12.5 GB/s for each."""
    whole, strided = EqualGroups(FRONTIER, 64), EqualGroups(FRONTIER, 64, stride=8)
    assert limits(whole, "ring", RCCL)["nic"] == pytest.approx(100e9)
    assert limits(strided, "ring", RCCL)["nic"] == pytest.approx(12.5e9)
    assert (strided.shape.size, strided.shape.num_nodes, strided.shape.num_packages) == (8, 8, 8)
    simulated = single("all_gather", 2**26, 64, fidelity="analytic", library=RCCL, axes=("node",)).step_s
    assert strided.seconds(RCCL, "all_gather", 2**26) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize(
    ("devices", "stride"),
    [(8, 1), (16, 8), (64, 1)],
)
@pytest.mark.parametrize("library", ["rccl", "nccl"])
def test_times_jump_only_where_the_library_changes_its_mind(library: str, devices: int, stride: int) -> None:
    """Twice the bytes take as long or longer, and at most twice as long, while algorithm and protocol stay: halves of
    powers of two, so that nothing hides between the sizes that are looked at."""
    groups, used = EqualGroups(FRONTIER, devices, stride), load_library(library)
    assert used.tuning is not None

    def way(size: float) -> tuple[bool, str]:
        assert used.tuning is not None
        by_tree = used.tuning.takes_tree(size, groups.shape)
        return by_tree, used.tuning.takes_ll("tree" if by_tree else "ring", "all_reduce", size, groups.shape)

    compared = 0
    for size in [64 * 2 ** (number / 2) for number in range(60)]:
        if way(size) == way(2 * size):
            once, twice = (groups.seconds(used, "all_reduce", each) for each in (size, 2 * size))
            assert once * (1 - 1e-9) <= twice <= 2 * once * (1 + 1e-9), f"{size:,.0f} bytes"
            compared += 1
    assert compared > 40
