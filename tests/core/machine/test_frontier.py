"""Frontier's node as the Frontier User Guide and RCCL's tables describe it: links, routes, NICs, rings, numbers."""

from collections import Counter
from itertools import pairwise

import pytest

from simfrontier.core.machine import Machine, load_machine

# xGMI links between each pair of GCDs: docs.olcf.ornl.gov Frontier User Guide, node diagram.
WIRES = (
    (0, 4, 1, 0, 0, 0, 2, 0),
    (4, 0, 0, 1, 0, 1, 0, 0),
    (1, 0, 0, 4, 2, 0, 0, 0),
    (0, 1, 4, 0, 0, 0, 0, 1),
    (0, 0, 2, 0, 0, 4, 1, 0),
    (0, 1, 0, 0, 4, 0, 0, 1),
    (2, 0, 0, 0, 1, 0, 0, 4),
    (0, 0, 0, 1, 0, 1, 4, 0),
)
GCDS = range(8)


@pytest.fixture(scope="module")
def frontier() -> Machine:
    return load_machine("frontier")


def names(machine: Machine, route: tuple[int, ...]) -> list[str]:
    return [machine.node.links[link].name for link in route]


def stops(machine: Machine, a: int, b: int) -> list[int | str]:
    return [a, *(machine.node.links[link].dst for link in machine.node.route(a, b))]


@pytest.mark.parametrize("name", ["frontier", "lumi-g"])
def test_links_are_those_of_the_node_diagram_in_both_directions(name: str) -> None:
    links = load_machine(name).node.links
    xgmi = {(link.src, link.dst): link for link in links if link.name.startswith("xgmi")}
    assert len(xgmi) == 24
    for a in GCDS:
        for b in GCDS:
            wires = WIRES[a][b]
            assert ((a, b) in xgmi) == (wires > 0)
            if wires:
                link = xgmi[a, b]
                expected = (f"xgmi {a}>{b}", f"xgmi{wires}", wires * 50e9)
                assert (link.name, link.link_class, link.bytes_per_s) == expected


@pytest.mark.parametrize(
    "route",
    [
        # a bottleneck of 100 GB/s: the widest of several two-hop routes
        *([0, 6, 7], [1, 0, 6], [2, 4, 5], [3, 2, 4]),
        # fewest hops win over the wider three-hop routes 1-0-6-7 and 3-2-4-5; then the lowest ids
        *([1, 3, 7], [3, 1, 5]),
        *([0, 1, 3], [0, 2, 4], [0, 1, 5], [4, 2, 0], [5, 1, 0]),
        *([0, 1], [4, 6]),
    ],
)
def test_routes_have_fewest_hops_then_are_widest_then_lowest(frontier: Machine, route: list[int]) -> None:
    assert stops(frontier, route[0], route[-1]) == route


def test_odd_gcds_own_the_nics_and_even_ones_cross_their_package(frontier: Machine) -> None:
    assert frontier.node.nic_device == (1, 3, 5, 7)
    assert frontier.node.nic_of == (0, 0, 1, 1, 2, 2, 3, 3)
    assert names(frontier, frontier.node.to_network(4)) == ["xgmi 4>5", "pcie 5>nic2", "nic2>net"]
    assert names(frontier, frontier.node.from_network(4)) == ["net>nic2", "pcie nic2>5", "xgmi 5>4"]
    assert names(frontier, frontier.node.to_network(7)) == ["pcie 7>nic3", "nic3>net"]
    assert names(frontier, frontier.node.from_network(7)) == ["net>nic3", "pcie nic3>7"]
    assert {link.bytes_per_s for link in frontier.node.links if link.link_class == "nic"} == {25e9}
    assert {link.bytes_per_s for link in frontier.node.links if link.link_class == "pcie"} == {50e9}


def test_rings_take_every_wire_once_at_most(frontier: Machine) -> None:
    node = frontier.node
    closed = Counter(step for ring in node.rings for step in pairwise((*ring, ring[0])))
    open_ = Counter(step for chain in node.chains for step in pairwise(chain))
    assert len(node.rings) == len(node.chains) == 4
    for used in (closed, open_):
        assert all(count <= WIRES[a][b] for (a, b), count in used.items())
    # The 4 rings are two undirected cycles without a common wire, each in both directions.
    assert closed == Counter((b, a) for a, b in closed.elements())


def test_each_nic_is_entry_of_one_chain_and_exit_of_another(frontier: Machine) -> None:
    nic_of = frontier.node.nic_of
    assert sorted(nic_of[chain[0]] for chain in frontier.node.chains) == [0, 1, 2, 3]
    assert [(nic_of[chain[0]], nic_of[chain[-1]]) for chain in frontier.node.chains] == [(0, 1), (1, 0), (3, 2), (2, 3)]


def test_numbers_of_the_whole_machine(frontier: Machine) -> None:
    assert (frontier.num_nodes, frontier.num_devices, frontier.packages_per_node) == (9408, 75264, 4)
    fly = frontier.dragonfly
    assert fly is not None
    assert (fly.num_groups, fly.nodes_per_group, fly.bytes_per_s) == (74, 128, 100e9)
    assert fly.nonminimal_share == pytest.approx(7.3e12 / 128 / 30e9 * 0.932 - 1, abs=0.005)
    shares = {name: link_class.share for name, link_class in frontier.link_classes.items()}
    # Rates of large copies by zerefwayne/thesis-benchmarks; inside the node beyond what 32 MiB reach (147, 77.1, 39.0).
    expected = {"xgmi4": 155 / 200, "xgmi2": 79.0 / 100, "xgmi1": 39.55 / 50, "nic": 23.3 / 25}
    assert {name: shares[name] for name in expected} == pytest.approx(expected)


def test_lumi_g_has_frontiers_node_in_groups_of_124() -> None:
    lumi, frontier = load_machine("lumi-g"), load_machine("frontier")
    assert (lumi.node, lumi.device) == (frontier.node, frontier.device)
    inside = [name for name in frontier.link_classes if name != "global"]
    assert {name: lumi.link_classes[name] for name in inside} == {name: frontier.link_classes[name] for name in inside}
    assert lumi.dragonfly is not None
    assert (lumi.dragonfly.nodes_per_group, lumi.dragonfly.num_groups, lumi.num_nodes) == (124, 24, 24 * 124)
    assert lumi.dragonfly.bytes_per_s * 24 * 23 == 276e12


# CoralGemm R_16B (eth-cscs/cscs-reframe-tests) and rocBLAS, typical (hpcgroup/perf-variability); TFLOP/s by edge.
@pytest.mark.parametrize(("edge", "tflops"), [(3200, 93.0), (6400, 108.6), (12800, 119.8), (32768, 126.0)])
def test_matmul_rate_is_within_1_percent_of_what_was_measured(frontier: Machine, edge: int, tflops: float) -> None:
    assert frontier.device.matmul_rate(edge, edge, edge) == pytest.approx(tflops * 1e12, rel=0.006)


def test_matmul_law_is_the_least_squares_fit_of_its_points(frontier: Machine) -> None:
    optimize = pytest.importorskip("scipy.optimize")
    edges, rates = [3200.0, 6400.0, 12800.0, 32768.0], [93.0, 108.6, 119.8, 126.0]

    def residuals(guess: list[float]) -> list[float]:
        return [guess[0] * x / (x + guess[1]) / y - 1 for x, y in zip(edges, rates, strict=True)]

    # Relative instead of log residuals are the same fit to second order in 0.6 %.
    rate, half_edge = optimize.least_squares(residuals, [130.0, 1300.0]).x
    assert frontier.device.matmul_flops_per_s == pytest.approx(rate * 1e12, rel=1e-3)
    assert frontier.device.matmul_half_edge == pytest.approx(half_edge, rel=1e-2)
    left = residuals([rate, half_edge])
    assert frontier.device.matmul_sd == pytest.approx((sum(each**2 for each in left) / (4 - 2)) ** 0.5, rel=0.01)


def test_matmul_rate_depends_on_the_work_only(frontier: Machine) -> None:
    device = frontier.device
    assert device.matmul_rate(1000, 2000, 4000) == pytest.approx(device.matmul_rate(2000, 2000, 2000))
    assert device.matmul_rate(1000, 1000, 1000, batch=8) == pytest.approx(device.matmul_rate(2000, 2000, 2000))
