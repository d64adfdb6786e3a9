"""Devices of many speeds: nodes in classes compared with every device by itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfrontier.core.engine import speed_error, trace_notes
from simfrontier.core.engine.varied import OTHER_CONTENTION
from simfrontier.core.machine import Perturbation, SlowDevice, Spread
from simfrontier.core.network.speeds import MOST_SPEEDS, class_rates, classes_of_nodes
from simfrontier.core.workload import find_model
from tests.core.engine.steps import frontier_mesh, schedule, step

TINY = find_model("tiny")
DEVICES = Spread(of="devices", distribution="normal", sd=0.08)
NETWORKS = Spread(of="networks", distribution="uniform", width=0.4)


def test_nodes_of_a_class_have_its_mean_times() -> None:
    """The slowest node and the slowest network are by themselves, the others in order of their slowest devices."""
    rng = np.random.default_rng(1)
    speed, network = rng.uniform(0.5, 1.0, (20, 8)), rng.uniform(0.5, 1.0, 20)
    classes = classes_of_nodes(speed[None], network[None])
    rates, slowest = class_rates(speed, classes), speed.min(axis=1)
    means = rates.mean
    assert np.unique(classes).size == 4 and np.unique(means).size == MOST_SPEEDS
    for node in (slowest.argmin(), network.argmin()):
        assert (classes == classes[node]).sum() == 1 and (means[node] == speed[node]).all()
    assert (1.0 / means).mean(axis=0) == pytest.approx((1.0 / speed).mean(axis=0), rel=1e-12)
    fast, slow = (slowest[classes == number] for number in (classes[slowest.argmax()], 2))
    assert fast.min() > slow.max()
    assert rates.largest_difference == pytest.approx(max((speed / means).max(), (means / speed).max()) - 1.0)
    assert (rates.slowest <= speed).all() and (speed <= rates.fastest).all()
    assert set(np.concatenate([rates.slowest.ravel(), rates.fastest.ravel()])) <= set(speed.ravel())


@pytest.mark.parametrize(("family", "networks"), [("zero3", ()), ("zero-topo", (NETWORKS,))])
def test_the_error_that_is_stated_bounds_the_error(family: str, networks: tuple[Spread, ...]) -> None:
    built = schedule(family, frontier_mesh(8), shape=TINY)
    ill = Perturbation(spread=(DEVICES, *networks))
    classes, exact = step(built, perturbation=ill), step(built, perturbation=ill, exact=True)
    stated = speed_error(classes)
    assert stated is not None and speed_error(exact) is None
    assert classes.pricing.folding.num_rank_classes < 64 == exact.pricing.folding.num_rank_classes
    assert abs(classes.step_s / exact.step_s - 1.0) <= stated.step <= stated.single + OTHER_CONTENTION < 0.6
    assert networks or stated.step < 1e-3
    numbers = f"by up to {100 * stated.single:.2g} %, the step by up to {100 * stated.step:.2g} %"
    assert numbers in stated.note == trace_notes(classes)["simplified"] and "simplified" not in trace_notes(exact)


@pytest.mark.parametrize(("family", "seed"), [("zero-topo", 3)])
def test_the_error_that_is_stated_bounds_that_of_speeds_that_come_late(family: str, seed: int) -> None:
    """All devices slow down in the middle of the step."""
    built = schedule(family, frontier_mesh(8), shape=TINY)
    factors, half_s = np.random.default_rng(seed).uniform(0.6, 1.0, 64), step(built).step_s / 2.0
    late = tuple(SlowDevice(device=each, factor=factor, from_s=half_s) for each, factor in enumerate(factors.tolist()))
    classes, exact = (step(built, perturbation=Perturbation(slow=late), exact=each) for each in (False, True))
    stated = speed_error(classes)
    assert stated is not None and abs(classes.step_s / exact.step_s - 1.0) <= stated.step


@pytest.mark.parametrize(("family", "seed"), [("hsdp", 1)])
def test_up_to_32_speeds_folded_are_exact(family: str, seed: int) -> None:
    """Devices and networks drawn from distributions."""
    ill = Perturbation(spread=(replace(DEVICES, seed=seed), replace(NETWORKS, seed=seed)))
    built = schedule(family, frontier_mesh(4), shape=TINY, grad_accum=2)
    folded, exact = step(built, perturbation=ill), step(built, perturbation=ill, exact=True)
    assert folded.pricing.folding.num_rank_classes == MOST_SPEEDS and speed_error(folded) is None
    assert folded.step_s == pytest.approx(exact.step_s, rel=1e-9)
