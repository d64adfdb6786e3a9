"""Groups of one device in every second node of Frontier: the share of the NICs that each of them gets."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.core.collectives import load_library
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import machine_named
from simfrontier.core.network import Fabric

NODES = 32  # of a group


def groups(gcds: list[int], machine: str = "frontier", nodes: int = NODES, every: int = 2) -> EqualGroups:
    """One group for each of these GCDs of a node, with that GCD of every second node."""
    devices = np.array([8 * every * node + gcd for node in range(nodes) for gcd in gcds])
    fabric = Fabric.build(machine_named(machine), every * nodes, num_devices=devices.size, placement=devices)
    return EqualGroups.of(fabric, np.arange(devices.size).reshape(nodes, len(gcds)).T)


@pytest.mark.parametrize(("gcds", "share"), [([0], 1.0), ([0, 2], 1.0), ([0, 1], 0.5), ([*range(8)], 0.5)])
def test_a_group_has_a_nic_and_half_of_it_where_the_other_gcd_of_its_package_has_a_group_too(
    gcds: list[int], share: float
) -> None:
    """25 GB/s a NIC, of which rings reach 0.864: an all-reduce of 4.93 GB over 32 nodes takes 0.44 s, or 0.88 s where
    eight groups a node run at once."""
    library, at = load_library("rccl"), groups(gcds)
    assert at.sent_per_s("ring", library) == pytest.approx(0.864 * 25e9 * share, rel=1e-9)
    by_hand = 2 * 31 / 32 * 4.93e9 / (0.864 * 25e9 * share)
    assert at.seconds_by("ring", library, "all_reduce", 4.93e9) == pytest.approx(by_hand, rel=0.03)


@pytest.mark.parametrize(
    ("nodes", "measured_s"), [(2, 0.6142), (4, 0.9033), (8, 1.041), (16, 1.1116), (32, 1.1437)], ids=str
)
def test_all_reduces_that_a_job_on_lumi_logged_through_the_host_s_memory(nodes: int, measured_s: float) -> None:
    """2.93 GB over one GCD of each node, eight groups a node (spyysalo/lumi-llm-scaling@7314958, 175B-scaling-comms,
    medians)."""
    at = groups([*range(8)], "lumi-g", nodes, every=1)
    took_s = at.seconds_by("ring", load_library("rccl-no-gdr"), "all_reduce", 2_931_315_179)
    assert took_s == pytest.approx(measured_s, rel=0.03)


def test_the_same_without_the_other_group_of_a_package() -> None:
    """The shortest of the same logs over 32 nodes, 0.53 s: half of the median."""
    took_s = groups([0], "lumi-g", 32, every=1).seconds_by(
        "ring", load_library("rccl-no-gdr"), "all_reduce", 2_931_315_179
    )
    assert took_s == pytest.approx(0.5295, rel=0.12)
