"""Perlmutter's GPU nodes: four A100, fully connected, one NIC per device."""

import math
from collections import Counter
from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest

from simfrontier.core.machine import Machine, load_machine


@pytest.fixture(scope="module")
def perlmutter() -> Machine:
    return load_machine("perlmutter")


def test_every_device_reaches_every_other_over_a_link_of_100_gb_per_s(perlmutter: Machine) -> None:
    node = perlmutter.node
    for a in range(4):
        for b in range(4):
            assert len(node.route(a, b)) == (a != b)
    joins = [link for link in node.links if link.link_class == "nvlink4"]
    assert Counter(link.src for link in joins) == dict.fromkeys(range(4), 3)
    assert {link.bytes_per_s for link in joins} == {100e9}  # 3 * 100 GB/s: the 12 links of 25 of a device


def test_every_device_has_a_nic_of_its_own(perlmutter: Machine) -> None:
    assert perlmutter.node.nic_device == perlmutter.node.nic_of == (0, 1, 2, 3)
    names = [perlmutter.node.links[link].name for link in perlmutter.node.to_network(2)]
    assert names == ["pcie 2>nic2", "nic2>net"]


def test_rings_load_every_link_twice(perlmutter: Machine) -> None:
    steps = Counter(step for ring in perlmutter.node.rings for step in pairwise((*ring, ring[0])))
    assert len(steps) == 12
    assert set(steps.values()) == {2}


def test_chains_load_every_link_once_and_every_nic_once_each_way(perlmutter: Machine) -> None:
    chains = perlmutter.node.chains
    steps = Counter(step for chain in chains for step in pairwise(chain))
    assert len(steps) == 12
    assert set(steps.values()) == {1}
    assert sorted(chain[0] for chain in chains) == sorted(chain[-1] for chain in chains) == [0, 1, 2, 3]


def test_numbers_of_the_whole_machine(perlmutter: Machine) -> None:
    assert (perlmutter.num_nodes, perlmutter.num_devices, perlmutter.library) == (1536 + 256, 7168, "nccl")
    fly = perlmutter.dragonfly
    assert fly is not None
    assert fly.nodes_per_group * 24 == 1536
    assert fly.num_groups * fly.nodes_per_group == perlmutter.num_nodes
    # the part of a group's injection that leaves it is Frontier's: 73 * 100 GB/s of 128 * 4 * 25 GB/s
    leaves = fly.bytes_per_s * (fly.num_groups - 1) / (fly.nodes_per_group * 4 * 25e9)
    assert leaves == pytest.approx(73 * 100e9 / (128 * 4 * 25e9), rel=0.01)


def test_large_products_run_at_the_measured_median(perlmutter: Machine) -> None:
    # 258.7 TF at edge 32768: 271e12 * 32768 / (32768 + 1558)
    assert perlmutter.device.matmul_rate(32768, 32768, 32768) == pytest.approx(258.7e12, rel=1e-3)


def test_spread_of_an_a100_is_that_of_its_percentiles(perlmutter: Machine) -> None:
    expected = math.log(0.2799 / 0.2558) / (2 * NormalDist().inv_cdf(0.99))
    assert perlmutter.device.speed_sd == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("name", ["frontier", "lumi-g"])
def test_spread_of_a_gcd_is_that_of_the_extremes_of_thousands(name: str) -> None:
    # Expected largest of n normals: the integral of z n phi(z) Phi(z)^(n-1); twice that is the expected range.
    z = np.linspace(-2.0, 8.0, 20_001)
    density = np.exp(-(z**2) / 2) / math.sqrt(2 * math.pi)
    below = np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in z.tolist()])
    largest = {n: float(np.sum(z * n * density * below ** (n - 1)) * (z[1] - z[0])) for n in (1000, 5000, 9000)}
    assert largest[5000] == pytest.approx(3.678, abs=0.002)
    spread = {n: math.log(0.601 / 0.529) / (2 * high) for n, high in largest.items()}
    sd = load_machine(name).device.speed_sd
    assert sd == pytest.approx(spread[5000], rel=0.03)
    assert spread[9000] < sd < spread[1000]
