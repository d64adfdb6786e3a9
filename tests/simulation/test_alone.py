"""A call alone in closed form is what the simulator makes of it, and groups share what they pass through."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.collectives import Library, algorithm, candidate_algorithms, load_library
from simfrontier.collectives.algorithms.levels import level_rates, with_rates
from simfrontier.cost import EqualGroups
from simfrontier.errors import InputError
from simfrontier.machine import Machine, load_machine
from simfrontier.schedule.ir import CollectiveKind
from tests.network.limits import limits
from tests.simulation.singles import single

FRONTIER, PERLMUTTER = load_machine("frontier"), load_machine("perlmutter")
RCCL, NCCL = load_library("rccl"), load_library("nccl")
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("num_ranks", [2, 4, 8, 16, 64])
def test_it_is_what_the_simulator_takes(kind: CollectiveKind, num_ranks: int) -> None:
    groups = EqualGroups(FRONTIER, num_ranks)
    for size in (4096, 2**20, 2**26):
        simulated = single(kind, size, num_ranks, fidelity="analytic", library=RCCL).step_s
        assert groups.seconds(RCCL, kind, size) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_the_simulator_takes_on_perlmutter(kind: CollectiveKind) -> None:
    groups = EqualGroups(PERLMUTTER, 32)
    simulated = single(kind, 2**24, 32, "perlmutter", "analytic", library=NCCL).step_s
    assert groups.seconds(NCCL, kind, 2**24) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize(
    ("machine", "name"), [(FRONTIER, "hierarchical-mpi-rccl"), (PERLMUTTER, "hierarchical-mpi-nccl")]
)
@pytest.mark.parametrize("num_ranks", [4, 8, 32, 128])
def test_two_levels_are_as_fast_as_the_simulator_has_them(machine: Machine, name: str, num_ranks: int) -> None:
    """Rates from limits that are laid out once are those of the patterns of both levels; and another library, asked of
    the same groups, gets its own."""
    groups = EqualGroups(machine, num_ranks)
    for library in (load_library(name), slower(load_library(name))):
        shape, of_links = groups.shape, lambda one: algorithm("ring").shares_on(one, machine)
        given = level_rates(groups.fabric, groups.groups, shape, library, of_links)
        known = with_rates(library, groups.shape, given)
        volume = (num_ranks - 1) / num_ranks * 2**26
        seconds = algorithm("two_level").latency_s(known, "all_gather", 2**26, groups.shape, 0.0)
        seconds += volume / algorithm("two_level").cap_bytes_per_s(known, groups.shape)
        assert groups.seconds(library, "all_gather", 2**26) == pytest.approx(seconds, rel=1e-12)


def slower(library: Library) -> Library:
    """The same with half the rate between nodes."""
    assert library.two_level is not None
    calls = {
        kind: replace(
            levels,
            between=replace(
                levels.between, link_shares={link: share / 2 for link, share in levels.between.link_shares.items()}
            ),
        )
        for kind, levels in library.two_level.calls.items()
    }
    return replace(library, two_level=replace(library.two_level, calls=calls))


def test_the_rate_is_that_of_the_library_that_asks() -> None:
    groups = EqualGroups(FRONTIER, 64)
    half = replace(RCCL, link_shares={link: share / 2 for link, share in RCCL.link_shares.items()})
    first = groups.sent_per_s("ring", RCCL)
    assert groups.sent_per_s("ring", half) == pytest.approx(first / 2)
    assert groups.sent_per_s("ring", RCCL) == first


def test_strided_groups_share_the_nics() -> None:
    """64 GCDs on 8 nodes. One group of all: 4 NICs of 25 GB/s carry one ring, 100 GB/s for a rank. 8 groups of one GCD
    of each node: two of them on each NIC, 12.5 GB/s for each."""
    whole, strided = EqualGroups(FRONTIER, 64), EqualGroups(FRONTIER, 64, stride=8)
    assert limits(whole, "ring", RCCL)["nic"] == pytest.approx(100e9)
    assert limits(strided, "ring", RCCL)["nic"] == pytest.approx(12.5e9)
    assert (strided.shape.size, strided.shape.num_nodes, strided.shape.num_packages) == (8, 8, 8)
    simulated = single("all_gather", 2**26, 64, fidelity="analytic", library=RCCL, axes=("node",)).step_s
    assert strided.seconds(RCCL, "all_gather", 2**26) == pytest.approx(simulated, rel=1e-9)


@pytest.mark.parametrize("stride", [2, 4])
def test_groups_of_every_second_or_fourth_device_are_laid_out(stride: int) -> None:
    """32 GCDs: two groups of 16 share the 4 NICs, four groups of 8 likewise: a half and a quarter of 100 GB/s each."""
    assert limits(EqualGroups(FRONTIER, 32, stride), "ring", RCCL)["nic"] == pytest.approx(100e9 / stride)


@pytest.mark.parametrize(("devices", "stride"), [(6, 4), (8, 8), (8, 0), (24, 3), (24, 6), (24, 16)])
def test_groups_of_one_device_and_unequal_ones_are_refused(devices: int, stride: int) -> None:
    with pytest.raises(InputError) as caught:
        EqualGroups(FRONTIER, devices, stride)
    assert str(caught.value) == (
        f"frontier: got a stride of {stride} over {devices} devices, allowed: groups of equal size, of two devices or "
        "more, with equally many on each of their nodes"
    )


# ── what a library takes of several algorithms ──


def choosing(**choices: tuple[str, ...]) -> Library:
    """RCCL with other choices, and with its own rule of trees."""
    return replace(RCCL, choices={**RCCL.choices, **choices})  # type: ignore[dict-item]


@pytest.mark.parametrize("options", [("ring", "ring_twice"), ("ring_twice", "ring")])
@pytest.mark.parametrize("size", [2**20, 2**28])
def test_the_rule_of_trees_is_none_for_calls_that_have_no_tree(options: tuple[str, ...], size: int) -> None:
    """512 GCDs: a reduce-scatter goes by the faster of its rings, though an all-reduce of 1 MiB would go by tree."""
    library = choosing(reduce_scatter=options, all_reduce=("ring",))
    groups = EqualGroups(FRONTIER, 512)
    assert RCCL.tuning is not None and RCCL.tuning.takes_tree(2**20, groups.shape)
    assert groups.seconds_by("ring", library, "reduce_scatter", size) < groups.seconds_by(
        "ring_twice", library, "reduce_scatter", size
    )
    seconds = groups.seconds_by("ring", library, "reduce_scatter", size)
    assert groups.seconds(library, "reduce_scatter", size) == seconds
    step = single("reduce_scatter", size, 512, fidelity="analytic", library=library)
    assert list(step.pricing.algorithms.values()) == ["ring"]
    assert step.step_s == pytest.approx(seconds, rel=1e-9)


def test_the_rule_of_trees_takes_no_tree_that_is_not_listed() -> None:
    library, groups = choosing(all_reduce=("ring", "halving")), EqualGroups(FRONTIER, 512)
    by_ring, by_halving = (groups.seconds_by(way, library, "all_reduce", 2**20) for way in ("ring", "halving"))
    assert groups.seconds(library, "all_reduce", 2**20) == min(by_ring, by_halving)


@pytest.mark.parametrize(("size", "by_tree"), [(2**20, True), (2**34, False)])
def test_the_rule_of_trees_leaves_all_others_or_none(size: int, by_tree: bool) -> None:
    library, groups = choosing(all_reduce=("halving", "tree", "ring")), EqualGroups(FRONTIER, 512)
    assert library.tuning is not None and library.tuning.takes_tree(size, groups.shape) == by_tree
    left: tuple[str, ...] = ("tree",) if by_tree else ("halving", "ring")
    assert candidate_algorithms(library, "all_reduce", False, "library", size, groups.shape) == left
    assert candidate_algorithms(library, "all_reduce", False, "ring", size, groups.shape) == (
        "ring",
    )  # the schedule says so
    free = replace(library, tuning=None)
    assert candidate_algorithms(free, "all_reduce", False, "library", size, groups.shape) == ("halving", "tree", "ring")
    only = choosing(all_reduce=("tree",))
    assert candidate_algorithms(only, "all_reduce", False, "library", size, groups.shape) == ("tree",)


# ── what a machine cannot hold ──


@pytest.mark.parametrize(
    ("devices", "message"),
    [
        (1, "frontier: got 1 devices, allowed: 2 to 75264"),
        (75272, "frontier: got 75272 devices, allowed: 2 to 75264"),
        (12, "frontier: got 12 devices, allowed above one node: multiples of 8"),
    ],
)
def test_groups_that_a_machine_cannot_hold_are_one_line(devices: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        EqualGroups(FRONTIER, devices)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("devices", "stride"),
    [(2, 1), (8, 1), (8, 2), (8, 4), (16, 8), (16, 4), (16, 2), (16, 1), (24, 8), (32, 8), (32, 2), (64, 8), (64, 1)],
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
