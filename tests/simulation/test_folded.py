"""Folded = exact: simulating one rank of each class gives every rank's times, with and without faults."""

import numpy as np
import pytest

from simfrontier.cost import Pricing, price
from simfrontier.machine import HEALTHY
from simfrontier.simulation import simulate
from tests.perturbed import perturbed
from tests.simulation.steps import NAMED, frontier_mesh, schedule, step

FAULTS = {
    "healthy": lambda nodes: HEALTHY,
    "slow GCD": lambda nodes: perturbed(slow={11: 0.7}),
    "degraded link": lambda nodes: perturbed(links={(nodes - 1, "xgmi 0>2"): 0.4, (0, "nic1>net"): 0.5}),
    "both": lambda nodes: perturbed(slow={3: 0.8}, links={(nodes - 1, "net>nic2"): 0.5}),
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("nodes", [2, 8])
@pytest.mark.parametrize("family", NAMED)
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


def test_a_fault_is_felt() -> None:
    """The faults above change the step, so that the comparison is not one of equal healthy runs."""
    built = schedule("zero-topo", frontier_mesh(2))
    healthy = step(built).step_s
    for fault in ("slow GCD", "degraded link", "both"):
        assert step(built, perturbation=FAULTS[fault](2)).step_s > 1.01 * healthy


def test_classes_that_are_too_coarse_are_wrong() -> None:
    """A folding that lumps a slow rank with healthy ones gives other times: the comparison above can fail."""
    from simfrontier.collectives import load_library
    from simfrontier.machine import load_machine
    from simfrontier.schedule.segments import SegmentedProgram

    built = schedule("zero-topo", frontier_mesh(2))
    perturbation = perturbed(slow={11: 0.7})
    right = step(built, perturbation=perturbation)
    blind: Pricing = price(built, load_machine("frontier"), load_library("rccl"))
    (wrong,) = simulate([SegmentedProgram.of_ops(built, built.roles[0])], blind)
    assert abs(wrong.timeline.step_s / right.step_s - 1) > 0.05


def test_costs_grow_with_classes_not_ranks() -> None:
    """8, 64 and 384 GCDs, and 3,072 (which spans dragonfly groups), have as many rank classes."""
    counts = [
        step(schedule("zero3", frontier_mesh(nodes))).pricing.folding.num_rank_classes for nodes in (1, 8, 48, 384)
    ]
    assert counts == [counts[0]] * 4
    counts = [step(schedule("zero-topo", frontier_mesh(n))).pricing.folding.num_rank_classes for n in (8, 48, 384)]
    assert max(counts) <= 16
