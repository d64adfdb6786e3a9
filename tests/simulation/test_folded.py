"""Folded = exact: simulating one rank of each class gives every rank's times, with and without faults."""

import numpy as np
import pytest

from simfrontier.collectives import load_library
from simfrontier.machine import HEALTHY, load_machine
from simfrontier.schedule import Mesh
from simfrontier.simulation import simulate_step
from tests.perturbed import perturbed
from tests.simulation.steps import NAMED, frontier_mesh, schedule, step

FAULTS = {
    "healthy": lambda nodes: HEALTHY,
    "slow GCD": lambda nodes: perturbed(slow={11: 0.7}),
    "degraded link": lambda nodes: perturbed(links={(nodes - 1, "xgmi 0>2"): 0.4, (0, "nic1>net"): 0.5}),
    "both": lambda nodes: perturbed(slow={3: 0.8}, links={(nodes - 1, "net>nic2"): 0.5}),
}


@pytest.mark.parametrize(
    ("family", "nodes", "fault"),
    [
        *((family, 2, "both") for family in NAMED),
        *(("zero3", 8, "healthy"), ("zero-topo", 8, "degraded link"), ("zeropp", 8, "slow GCD")),
    ],
)
def test_folded_is_exact(family: str, nodes: int, fault: str) -> None:
    built = schedule(family, frontier_mesh(nodes))
    perturbation = FAULTS[fault](nodes)
    folded = step(built, perturbation=perturbation)
    exact = step(built, perturbation=perturbation, exact=True)
    assert exact.pricing.folding.num_rank_classes == 8 * nodes
    assert nodes == 2 or folded.pricing.folding.num_rank_classes <= 24
    of_rank = folded.pricing.folding.rank_class
    for name in ("ready", "start", "end"):
        ours, theirs = getattr(folded.timeline, name)[of_rank], getattr(exact.timeline, name)
        assert np.abs(ours - theirs).max() <= 1e-9 * exact.step_s


def test_costs_grow_with_classes_not_ranks() -> None:
    """8, 64 and 384 GCDs, and 3,072 (which spans dragonfly groups), have as many rank classes."""
    counts = [
        step(schedule("zero3", frontier_mesh(nodes))).pricing.folding.num_rank_classes for nodes in (1, 8, 48, 384)
    ]
    assert counts == [counts[0]] * 4
    counts = [step(schedule("zero-topo", frontier_mesh(n))).pricing.folding.num_rank_classes for n in (8, 48, 384)]
    assert max(counts) <= 16


@pytest.mark.parametrize("name", ["a100-node", "dgx-2", "alps", "mi250-node"])
def test_folded_is_exact_on_other_machines(name: str) -> None:
    """Nodes with a switch inside, and with other numbers of packages and devices."""
    machine = load_machine(name)
    mesh = Mesh((("node", 2), ("package", machine.packages_per_node), ("gcd", machine.devices_per_package)))
    library, built = load_library(machine.library), schedule("zero3", mesh)
    folded, exact = (simulate_step(built, machine, library, exact=one) for one in (False, True))
    assert folded.pricing.folding.num_rank_classes < exact.pricing.folding.num_rank_classes == mesh.num_ranks
    assert folded.step_s == pytest.approx(exact.step_s, rel=1e-9)
