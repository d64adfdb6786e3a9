"""Collectives on nodes with an internal switch: rates of ports and NICs, and a time by hand."""

from __future__ import annotations

import pytest

from simfrontier.core.collectives import load_library
from simfrontier.core.cost import EqualGroups
from simfrontier.core.machine import Machine, catalog, load_machine
from tests.core.network.brute import limits

GIB = 2**30
SWITCHED = [load_machine(name) for name in catalog() if load_machine(name).node.has_switch]
A100, NCCL_IB = load_machine("a100-node"), load_library("nccl-ib")


@pytest.mark.parametrize("machine", SWITCHED, ids=lambda machine: machine.name)
@pytest.mark.parametrize("algorithm", ["ring", "direct"])
def test_a_device_sends_as_much_as_its_port_carries(machine: Machine, algorithm: str) -> None:
    """In a ring both orders carry a half; in an all-to-all n - 1 messages of 1/(n-1) go up, and as many come down."""
    library, port = load_library(machine.library), machine.link_classes["port"].bytes_per_s
    for size in (machine.devices_per_node, machine.devices_per_node // 2):
        assert limits(EqualGroups(machine, size), algorithm, library) == pytest.approx({"port": port})


@pytest.mark.parametrize("machine", SWITCHED, ids=lambda machine: machine.name)
def test_a_ring_over_nodes_fills_all_nics(machine: Machine) -> None:
    """A ring brings all that it sends through each node's NICs once, so each rank may send what they carry together."""
    library, nics = load_library(machine.library), len(machine.node.nic_device)
    found = limits(EqualGroups(machine, 4 * machine.devices_per_node), "ring", library)
    assert found["nic"] == pytest.approx(nics * machine.link_classes["nic"].bytes_per_s)


def test_an_all_gather_in_a_node() -> None:
    """8 A100, 8 GiB, ring Simple: blocks of 1 GiB at 0.8 of 300 GB/s take 4.4739 ms; the other of the two times, 3.4 us
    and half a block, 2.2404 ms. With a corner of sharpness 4: 4.4739 (1 + (2.2404/4.4739)^4)^(1/4) = 4.5427 ms, seven
    of them and 8.4 us."""
    block = GIB / (0.8 * 300e9)
    other = 3.4e-6 + 0.5 * block
    expected = 8.4e-6 + 7 * (block**4 + other**4) ** 0.25
    assert expected == pytest.approx(31.807e-3, rel=1e-4)
    assert EqualGroups(A100, 8).seconds_by("ring", NCCL_IB, "all_gather", 8 * GIB) == pytest.approx(expected)
