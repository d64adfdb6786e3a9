"""MVAPICH2-GDR on Lassen: calls worked by hand, and that nothing is faster than its links."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.collectives import algorithm, load_library
from simfrontier.cost import EqualGroups, Prices
from simfrontier.machine import load_machine
from simfrontier.network import Fabric, equal_parts, paired
from simfrontier.schedule import Mesh
from simfrontier.schedule.ir import CollectiveKind
from simfrontier.simulation import Fidelity
from tests.simulation.singles import single

US, MIB = 1e-6, 2**20
LASSEN = load_machine("lassen")
MVAPICH = load_library("mvapich2-gdr")
KINDS: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all")


def test_it_is_lassens_library_and_no_number_is_measured() -> None:
    assert load_library(LASSEN.library).name == "mvapich2-gdr"
    assert {number.kind for number in MVAPICH.provenance()} == {"assumed"}
    assert MVAPICH.machines == ()  # fitted to none
    assert (MVAPICH.tree, MVAPICH.ring_order, MVAPICH.paced) == (None, "ranks", False)


def test_its_constants_are_cray_mpichs() -> None:
    cray = load_library("cray-mpich")
    assert (MVAPICH.ring, MVAPICH.ring_ll, MVAPICH.direct) == (cray.ring, cray.ring_ll, cray.direct)
    assert MVAPICH.link_shares["nic"] == MVAPICH.link_shares["uplink"] == cray.link_shares["nic"]
    assert MVAPICH.link_shares["xbus"] == MVAPICH.link_shares["nvlink3"] == cray.link_shares["xgmi1"]


def test_a_ring_inside_a_node_goes_at_the_pace_of_half_of_the_x_bus() -> None:
    """4 GPUs, 64 MiB: 3 (19.35 us + 16 MiB / (0.635 * 32 GB/s))."""
    expected = 3 * (19.35 * US + 16 * MIB / (0.635 * 32e9))
    assert EqualGroups(LASSEN, 4).seconds(MVAPICH, "all_gather", 64 * MIB) == pytest.approx(expected)


def test_one_rail_carries_the_ring_of_a_node() -> None:
    """192 GPUs on 48 nodes, 192 MiB: 191 (19.35 us + 1 MiB / (0.872 * 12.5 GB/s)), there and back for an all-reduce."""
    groups = EqualGroups(LASSEN, 192)
    expected = 191 * (19.35 * US + MIB / (0.872 * 12.5e9))
    assert groups.seconds(MVAPICH, "reduce_scatter", 192 * MIB) == pytest.approx(expected)
    assert groups.seconds(MVAPICH, "all_reduce", 192 * MIB) == pytest.approx(2 * expected)


def test_small_blocks_go_eagerly() -> None:
    """192 GPUs, 192 KiB: 191 (3.47 us + 1 KiB / (0.0735 * 10.9 GB/s))."""
    expected = 191 * (3.47 * US + 1024 / (0.0735 * 0.872 * 12.5e9))
    assert EqualGroups(LASSEN, 192).seconds(MVAPICH, "all_gather", 192 * 1024) == pytest.approx(expected)


def test_an_all_to_all_over_three_leaves_waits_for_the_uplinks() -> None:
    """192 GPUs: 72 under each of two leaves send 120/191 of 191/192 of 192 MiB out, at 0.872 of 225 GB/s; 191 hops."""
    expected = 191 * 19.35 * US + 72 * 120 * MIB / (0.872 * 225e9)
    assert EqualGroups(LASSEN, 192).seconds(MVAPICH, "all_to_all", 192 * MIB) == pytest.approx(expected)


@pytest.mark.parametrize("num_devices", [4, 8, 16, 48, 72, 96, 144, 192])
@pytest.mark.parametrize("kind", KINDS)
def test_no_call_is_faster_than_its_links_and_none_far_slower(kind: CollectiveKind, num_devices: int) -> None:
    """A ring moves (n-1)/n of the message over one NIC or half of the X-Bus; an all-to-all sends what is for other
    nodes over both NICs."""
    groups, nodes = EqualGroups(LASSEN, num_devices), num_devices // 4
    for size in (64 * 1024, MIB, 64 * MIB, 1024 * MIB):
        moved = size * (num_devices - 1) / num_devices * (2 if kind == "all_reduce" else 1)
        least_s = moved / (32e9 if nodes == 1 else 12.5e9)
        if kind == "all_to_all":
            least_s = size / 107e9 / 4 if nodes == 1 else 4 * size * (num_devices - 4) / num_devices / 25e9
        took_s = groups.seconds(MVAPICH, kind, size)
        assert took_s >= least_s
        if size == 1024 * MIB and kind != "all_to_all":
            assert took_s <= 2 * least_s


@pytest.mark.parametrize("fidelity", ["analytic", "flow"])
@pytest.mark.parametrize("kind", KINDS)
def test_it_carries_calls_of_plans(kind: CollectiveKind, fidelity: Fidelity) -> None:
    alone_s = EqualGroups(LASSEN, 80).seconds(MVAPICH, kind, 80 * MIB)
    took = single(kind, 80 * MIB, 80, "lassen", fidelity, library=MVAPICH).step_s
    assert took == pytest.approx(alone_s, rel=1e-9)


def test_messages_between_stages_go_by_the_nics_and_uplinks() -> None:
    """4 GPUs of each of 36 nodes to those 18 nodes further: two share a NIC, 72 the 225 GB/s of a leaf's uplinks."""
    fabric = Fabric.build(LASSEN, 36)
    pairs = np.arange(144).reshape(2, 72).T
    pattern = paired(fabric, pairs, 1, 0, algorithm("direct").shares_on(MVAPICH, LASSEN))
    _, rates = equal_parts(fabric, pattern)
    assert rates.min() == pytest.approx(0.872 * 225e9 / 72)
    mesh = Mesh((("stage", 2), ("data", 72)))
    (took,) = Prices(LASSEN, MVAPICH, 144).boundaries_s(mesh, "stage", MIB)
    assert took == pytest.approx(19.35 * US + MIB / (0.872 * 225e9 / 72))
