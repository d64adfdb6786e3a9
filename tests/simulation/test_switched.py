"""Steps on nodes with a switch inside: a folded step is the exact one, and its classes do not grow with the job."""

from __future__ import annotations

import numpy as np
import pytest

from simfrontier.collectives import load_library
from simfrontier.machine import HEALTHY, Machine, Perturbation, catalog, load_machine
from simfrontier.schedule import Mesh, Schedule
from simfrontier.simulation import SimulatedStep, simulate_step
from tests.perturbed import perturbed
from tests.simulation.steps import schedule

SWITCHED = [name for name in catalog() if load_machine(name).node.has_switch]
MORE = ["alps", "jean-zay-v100", "mi250-node"]  # of published runs, too
FAULTS = {
    "healthy": HEALTHY,
    "slow device": perturbed(slow={5: 0.6}),
    "port": perturbed(links={(1, "port switch>3"): 0.1}),
    "nic": perturbed(links={(0, "nic1>net"): 0.4}),
}


def mesh_on(machine: Machine, nodes: int) -> Mesh:
    return Mesh((("node", nodes), ("package", machine.packages_per_node), ("gcd", machine.devices_per_package)))


def step(built: Schedule, machine: Machine, fault: Perturbation = HEALTHY, *, exact: bool = False) -> SimulatedStep:
    return simulate_step(built, machine, load_library(machine.library), "flow", fault, exact)


@pytest.mark.parametrize("name", [*SWITCHED, *MORE])
def test_folded_is_exact(name: str) -> None:
    machine = load_machine(name)
    built = schedule("zero3", mesh_on(machine, 2))
    folded, exact = step(built, machine), step(built, machine, exact=True)
    assert exact.pricing.folding.num_rank_classes == 2 * machine.devices_per_node
    assert folded.pricing.folding.num_rank_classes < exact.pricing.folding.num_rank_classes
    assert folded.step_s == pytest.approx(exact.step_s, rel=1e-9)


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", ["selene", "dgx-2", "jean-zay-a100"])
def test_every_rank_ends_as_in_the_exact_step(name: str, fault: str) -> None:
    machine = load_machine(name)
    built = schedule("zeropp", mesh_on(machine, 2))
    folded, exact = step(built, machine, FAULTS[fault]), step(built, machine, FAULTS[fault], exact=True)
    of_rank = folded.pricing.folding.rank_class
    for part in ("ready", "start", "end"):
        ours, theirs = getattr(folded.timeline, part)[of_rank], getattr(exact.timeline, part)
        assert np.abs(ours - theirs).max() <= 1e-9 * exact.step_s
    if fault != "healthy":
        assert exact.step_s > 1.01 * step(built, machine).step_s  # it is felt


def test_classes_do_not_grow_with_the_job() -> None:
    machine = load_machine("selene")
    counts = [
        step(schedule("zero3", mesh_on(machine, nodes)), machine).pricing.folding.num_rank_classes
        for nodes in (2, 8, 16)
    ]
    assert counts[0] == counts[1] == counts[2] < 16
