"""Derived rings and chains, by hand and as properties; NICs of packages by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.core.machine.topology.derived_rings import chains_of, joins_of, rings_of
from simfrontier.core.machine.topology.device_arch import arch_of_sm
from simfrontier.core.machine.topology.nearest_nics import nearness, placed_nics, way
from simfrontier.core.machine.topology.node_topology import (
    LANES,
    NodeTopology,
    PciLink,
    PciPlace,
    TopologyDevice,
    TopologyNic,
    nearest_pci,
    pci_link,
)
from tests.core.topology.samples import FRONTIER_LINKS, PERLMUTTER_LINKS


def test_rings_of_frontier_by_hand() -> None:
    """From 0 the pair with most links (0-1, 4) first; 1-3 and 1-5 have one each: to 3, the lower; 3-2 (4), 2-4 (2), 4-5
    (4), 5-7 (1), 7-6 (4), 6-0 (2). That is RCCL's first ring. Of what is left the second takes 1-5 and 3-7."""
    rings = rings_of(FRONTIER_LINKS, 8)
    assert rings[::2] == ((0, 1, 3, 2, 4, 5, 7, 6), (0, 1, 5, 4, 2, 3, 7, 6))
    assert rings[1::2] == tuple(ring[::-1] for ring in rings[::2])


def test_rings_of_perlmutter_take_all_three_cycles() -> None:
    """Four links each: 0-1-2-3 first; then 0-2 and 1-3 have most left, and then 0-1-3-2."""
    assert rings_of(PERLMUTTER_LINKS, 4)[::2] == ((0, 1, 2, 3), (0, 2, 1, 3), (0, 1, 3, 2))


@given(st.data())
@settings(deadline=None)
def test_rings_go_along_links_and_take_no_more_than_there_are(data: st.DataObject) -> None:
    num_devices = data.draw(st.integers(3, 8))
    order = data.draw(st.permutations(range(num_devices)))
    links = {(min(pair), max(pair)): 1 for pair in zip(order, order[1:] + order[:1], strict=True)}
    for a in range(num_devices):
        for b in range(a + 1, num_devices):
            links[a, b] = links.get((a, b), 0) + data.draw(st.integers(0, 3))
    rings = rings_of(links, num_devices)
    assert rings
    left = dict(links)
    for ring, back in zip(rings[::2], rings[1::2], strict=True):
        assert sorted(ring) == list(range(num_devices)) and back == ring[::-1]
        for a, b in pairwise([*ring, ring[0]]):
            left[min(a, b), max(a, b)] -= 1
    assert min(left.values()) >= 0


def test_chains_enter_at_their_nics() -> None:
    rings = rings_of(FRONTIER_LINKS, 8)
    chains = chains_of(rings, (1, 3, 5, 7))
    assert [chain[0] for chain in chains[::2]] == [1, 3, 5, 7]
    assert chains[0] == (1, 3, 2, 4, 5, 7, 6, 0)  # the first ring, and the second for the second NIC
    assert chains[2] == (3, 7, 6, 0, 1, 5, 4, 2)
    assert chains[1::2] == tuple(chain[::-1] for chain in chains[::2])


def test_parts_are_joined_at_the_ends_of_their_paths() -> None:
    assert joins_of({(0, 1): 1, (2, 3): 1}, 4) == ((1, 2), (0, 3))
    assert joins_of({(0, 1): 1}, 3) == ((1, 2), (0, 2))
    assert joins_of({}, 2) == ((0, 1),)
    assert joins_of({(0, 1): 1, (1, 2): 1}, 3) == ((0, 2),)  # one path, whose ends are joined
    assert joins_of({(0, 1): 1, (1, 2): 1, (0, 2): 1}, 3) == joins_of({(0, 1): 1}, 2) == ()
    with pytest.raises(InputError, match="no path over devices 0, 1, 2, 3"):
        joins_of({(0, 1): 1, (0, 2): 1, (0, 3): 1, (4, 5): 1}, 6)  # a star


# ── NICs ──

GEN4 = PciLink(transfers=16.0, width=16)


def node(devices: list[PciPlace], nics: list[tuple[int, PciPlace]]) -> NodeTopology:
    return NodeTopology(
        version=1,
        arch=arch_of_sm(80),
        medium="nvlink",
        cpus=(0, 1),
        devices=tuple(TopologyDevice(dev=at, busid=f"d{at}", place=place) for at, place in enumerate(devices)),
        links={},
        to_switch=(0,) * len(devices),
        to_cpu=(0,) * len(devices),
        nics=tuple(
            TopologyNic(dev=at, name=f"n{at}", busid=f"n{at}", mbit_per_s=speed, place=place)
            for at, (speed, place) in enumerate(nics)
        ),
    )


def place(cpu: int, *bridges: str) -> PciPlace:
    return PciPlace(cpu=cpu, bridges=bridges, links=(GEN4,) * (len(bridges) + 1))


def test_ways_have_nccls_names() -> None:
    a = place(0, "b", "c")
    others = (place(0, "b", "c"), place(0, "b", "d"), place(0, "b"), place(0, "e"), place(0), place(1, "b", "c"))
    assert [way(a, other) for other in others] == ["PIX", "PXB", "PXB", "PHB", "PHB", "SYS"]
    near = [nearness(a, other) for other in others]
    assert near == sorted(near)


def test_a_nic_for_two_devices_makes_packages_of_two() -> None:
    placed = placed_nics(node([place(0), place(0), place(1), place(1, "b")], [(1, place(0)), (1, place(1, "b"))]))
    assert placed is not None and placed.devices_per_package == 2
    assert placed.device == (0, 3)  # the first of two alike; the one below the same bridge


def test_nics_are_exchanged_where_that_gives_every_package_one() -> None:
    """Device 0 is as near to both, device 1 nearer to the first, which device 0 would take."""
    placed = placed_nics(node([place(0), place(0, "b")], [(1, place(0, "b")), (1, place(0))]))
    assert (placed is not None and [nic.dev for nic in placed.used] == [1, 0]) or placed is not None
    assert placed.devices_per_package == 1 and sorted(nic.dev for nic in placed.used) == [0, 1]
    assert placed.used[1].dev == 0


def test_the_narrowest_pci_link_between_nic_and_device_counts() -> None:
    narrow = PciPlace(cpu=0, bridges=("b",), links=(GEN4, PciLink(transfers=16.0, width=8)))
    above = PciPlace(cpu=0, bridges=("b",), links=(PciLink(transfers=2.5, width=1), GEN4))  # not on the way
    placed = placed_nics(node([above], [(1, narrow)]))
    assert placed is not None and placed.bytes_per_s == pytest.approx(15.754e9, rel=1e-4)


# ── PCI ──


@pytest.mark.parametrize(
    ("speed", "width", "rate"),
    [
        ("2.5 GT/s PCIe", 1, 0.25e9),
        ("5 GT/s", 16, 8e9),
        ("8.0 GT/s PCIe", 16, 15.754e9),
        ("16.0 GT/s PCIe", 16, 31.508e9),
        ("16 GT/s", 0, 31.508e9),  # NCCL takes 0 as 16
        ("32.0 GT/s PCIe", 8, 31.508e9),
        ("64.0 GT/s PCIe", 16, 121e9),
        ("Unknown", 16, None),
        ("25.0 GT/s PCIe", 16, None),
        ("16.0 GT/s PCIe", 255, None),
    ],
)
def test_nominal_bandwidths_of_pci(speed: str, width: int, rate: float | None) -> None:
    assert pci_link(speed, width).bytes_per_s == (rate and pytest.approx(rate, rel=1e-4))


def test_rounded_numbers_of_data_sheets_find_their_generation() -> None:
    found = [(nearest_pci(rate).transfers, nearest_pci(rate).width) for rate in (15.75e9, 31.5e9, 63e9, 7.88e9, 50e9)]
    assert found == [(8.0, 16), (16.0, 16), (32.0, 16), (8.0, 8), (32.0, 16)]
    assert all(nearest_pci(lane * 16) == PciLink(transfers=transfers, width=16) for transfers, lane in LANES.items())
