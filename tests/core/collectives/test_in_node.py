"""Calls among devices of one node with NVLink switches: NCCL's choice, and times by hand."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from simfrontier.answers.accuracy.least_squares import with_number
from simfrontier.base.errors import InputError
from simfrontier.core.collectives import (
    GroupShape,
    Library,
    algorithm,
    candidate_algorithms,
    load_library,
    sent_part,
    with_algorithms,
)
from simfrontier.core.collectives.in_node import InNode
from simfrontier.core.cost import EqualGroups
from simfrontier.core.cost.call import exchange_latency_s, pair_shape
from simfrontier.core.machine import load_machine, machine_named
from simfrontier.core.program import CollectiveKind

US, MIB, RATE = 1e-6, 2.0**20, 100e9
A100, H100, B200 = (load_library(f"nccl-{name}") for name in ("ampere", "hopper", "blackwell"))


def shape(size: int, num_nodes: int = 1) -> GroupShape:
    return GroupShape(size=size, num_nodes=num_nodes, num_packages=size)


def inside(library: Library) -> InNode:
    assert library.in_node is not None
    return library.in_node


@pytest.mark.parametrize(
    ("library", "size", "large"),  # the least all-gather of Simple, between the two sizes whose measured times jump
    [
        (A100, 2, (1, 2)),
        (A100, 4, (1, 2)),
        (A100, 8, (8, 16)),
        (H100, 2, (2, 8)),
        (H100, 4, (2, 8)),
        (B200, 8, (8, 16)),
    ],
)
def test_simple_begins_where_measured_times_jump(library: Library, size: int, large: tuple[int, int]) -> None:
    takes = [inside(library).tuning.takes("simple", "all_gather", mib * MIB, size) for mib in large]
    assert takes == [False, True]


def test_the_rule_by_hand() -> None:
    """Four H100, 4 MiB: LL 6.6 + 3 (0.6 + 1 MiB / 141 GB/s) = 30.71 us, LL128 14 + 3 (1.9 + 1 MiB / (0.92 * 360)) =
    29.20 us, Simple 8.4 + 3 (3.4 + 1 MiB / 360) = 27.34 us."""
    tuning = inside(H100).tuning
    times = [tuning.ring_s(each, "all_gather", 4 * MIB, 4) / US for each in ("ll", "ll128", "simple")]
    assert times == pytest.approx([30.71, 29.20, 27.34], abs=0.01)


def test_switches_sum_for_eight_h100_and_not_for_four_nor_for_a100() -> None:
    def taken(library: Library, size: int, mib: float, nodes: int = 1) -> tuple[str, ...]:
        return candidate_algorithms(library, "all_reduce", False, "library", mib * MIB, shape(size, nodes))

    assert taken(H100, 8, 64) == taken(B200, 8, 16) == ("nvls",)
    assert taken(H100, 8, 0.25) == taken(H100, 4, 64) == taken(B200, 4, 64) == taken(A100, 8, 64) == ("ring",)
    assert "nvls" not in taken(H100, 16, 64, nodes=2)
    only = with_algorithms(H100, {"all_reduce": ("nvls",)})
    assert taken(only, 4, 64) == ("nvls",)
    with pytest.raises(InputError, match="on 2 nodes, allowed: of one node"):
        taken(only, 16, 64, nodes=2)
    with pytest.raises(InputError, match=r"has no in_node\.nvls"):
        with_algorithms(A100, {"all_reduce": ("nvls",)})


def test_an_all_reduce_in_switches_by_hand() -> None:
    """64 MiB over eight at 100 GB/s: 9/8 of it is sent, t = 755.0 us, and t fill / (t + fill) more."""
    law, vector = inside(H100), 64 * MIB
    assert law.nvls is not None
    assert sent_part("all_reduce", "nvls", 8) * 8 == 9
    sent_s = 1.125 * vector / RATE
    expected = law.base_s + law.nvls.base_s + sent_s + sent_s * law.nvls.fill_s / (sent_s + law.nvls.fill_s)
    assert algorithm("nvls").seconds_at(H100, "all_reduce", vector, shape(8), RATE) == pytest.approx(expected)


def test_rings_by_hand() -> None:
    """An all-gather over four by LL, with blocks of half a channel, of a few and of all; by Simple in a corner."""
    law = inside(H100)
    low = law.ll
    for block, least in ((2_048.0, 0.5 * low.least_block_bytes), (20_000.0, low.least_block_bytes), (250_000.0, 0.0)):
        moved = 3 * max(block, least) + low.own_share * block
        expected = law.base_s + 3 * low.hop_s + moved / (low.rate_share * RATE)
        assert algorithm("ring").seconds_at(H100, "all_gather", 4 * block, shape(4), RATE) == pytest.approx(expected)
    sharp = replace(H100, ring=replace(H100.ring, sharpness=1e6))
    for block, step in ((4e6, 40 * US), (5e5, law.simple.hop_s + 2.5 * US)):  # the link's time, and the hop's
        simple = replace(sharp, in_node=replace(law, tuning=replace(law.tuning, ll=law.tuning.ll128)))
        took = algorithm("ring").seconds_at(simple, "all_gather", 4 * block, shape(4), RATE)
        expected = law.base_s + law.simple.base_s + 3 * step + law.own_share * block / RATE
        assert took == pytest.approx(expected, rel=1e-4)


def test_an_exchange_copies_nothing_of_its_own() -> None:
    """1 MB each way at 100 GB/s: start-up, and 10 us beside the fill; an all-to-all of two copies 1 MB as well."""
    law = inside(B200)
    assert exchange_latency_s(1e6, pair_shape((0, 1, 0)), B200, RATE) == pytest.approx(
        law.base_s + law.direct.base_s + 1 / (0.1 / US + 1 / law.direct.fill_s)
    )
    both = algorithm("direct").latency_s(B200, "all_to_all", 2e6, shape(2), RATE)
    own_s = law.direct.own_share * 10 * US
    fill_s = 1 / (1 / (10 * US + own_s) + 1 / law.direct.fill_s)
    assert both == pytest.approx(law.base_s + law.direct.base_s + own_s + fill_s)


def test_pci_express_has_no_ll128_and_the_host_caps_rates() -> None:
    library, machine = load_library("nccl-l40s"), machine_named("l40s-node")
    assert inside(library).tuning.ring_s("ll128", "all_gather", MIB, 4) == float("inf")
    for name, caps in (("ring", library.ring_caps), ("direct", library.direct_caps)):
        rates = [EqualGroups(machine, size).sent_per_s(name, library) for size in (2, 4, 8)]
        assert rates == pytest.approx([caps[f"ranks_{size}_packages_{size}_bytes_per_s"] for size in (2, 4, 8)])
        assert EqualGroups(machine, 16).sent_per_s(name, library) > rates[2]  # between nodes they do not hold


def test_between_nodes_nothing_changes() -> None:
    whole = shape(16, num_nodes=2)
    without = replace(H100, in_node=None)
    for kind in ("all_gather", "all_reduce"):
        times = [algorithm("ring").seconds_at(each, kind, 64 * MIB, whole, RATE) for each in (H100, without)]
        assert times[0] == times[1]


@pytest.mark.parametrize("machine", ["a100-node", "h100-node"])
def test_times_grow_with_the_message(machine: str) -> None:
    """But for the jump down from one protocol to the next, of which NCCL's own prediction is not the law."""
    groups, library = EqualGroups(machine_named(machine), 8), load_library(machine_named(machine).library)
    for kind in ("all_gather", "reduce_scatter", "all_reduce", "all_to_all"):
        times = [groups.seconds(library, kind, 2.0**power) for power in range(10, 31)]
        assert all(later > 0.8 * before for before, later in pairwise(times)), kind
        assert times[-1] > 100 * times[0]


def test_variations_are_priced_as_one_by_one() -> None:
    """Every number of the table as an array of two: the times, and NCCL's choice, are those of two libraries."""
    keys = {each.key: float(each.value) for each in H100.provenance() if each.key.startswith("in_node.")}
    for key, value in keys.items():
        path, both = key.split("."), np.array([value, 0.5 * value])
        varied = with_number(H100, path, both)  # type: ignore[arg-type]
        for kind, by in CALLS:
            for size in (1e4, 1e6, 3e7):
                times = algorithm(by).seconds_at(varied, kind, size, shape(8), RATE)
                alone = [
                    algorithm(by).seconds_at(with_number(H100, path, each), kind, size, shape(8), RATE)
                    for each in both.tolist()
                ]
                assert np.broadcast_to(times, 2) == pytest.approx(alone), (key, kind, by, size)


CALLS: list[tuple[CollectiveKind, str]] = [
    ("all_gather", "ring"),
    ("all_reduce", "ring"),
    ("all_reduce", "nvls"),
    ("all_to_all", "direct"),
]


@pytest.mark.parametrize("name", ["a100-node", "a800-node", "h100-node", "h800-node", "b200-node"])
def test_nccl_takes_the_links_for_no_faster_than_they_are(name: str) -> None:
    machine = load_machine(name)
    assert inside(load_library(machine.library)).tuning.bus_bytes_per_s <= machine.link_classes["port"].bytes_per_s
