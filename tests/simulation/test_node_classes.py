"""Devices of many speeds: nodes in classes against every device as it is, and what is not put into classes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfrontier.machine import Perturbation, SlowDevice, Spread
from simfrontier.network.node_classes import MOST_SPEEDS, class_rates, classes_of_nodes
from simfrontier.simulation import speed_error, trace_notes
from simfrontier.simulation.many_speeds import OTHER_CONTENTION
from simfrontier.workload import find_model
from tests.perturbed import perturbed
from tests.simulation.pipelines import Pipeline
from tests.simulation.steps import NAMED, frontier_mesh, schedule, step

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


def test_a_node_with_a_dead_device_is_by_itself() -> None:
    speed = np.random.default_rng(1).uniform(0.5, 1.0, (20, 8))
    speed[7, 3] = 0.0
    classes = classes_of_nodes(speed[None], np.ones((1, 20)))
    slowest_living = int(np.where(speed > 0.0, speed, 1.0)[np.arange(20) != 7].min(axis=1).argmin())
    slowest_living += slowest_living >= 7
    assert (classes == classes[slowest_living]).sum() == 1
    assert (classes == classes[7]).sum() == 1 and class_rates(speed, classes).largest_difference < 1.0


def test_few_speeds_are_as_they_are() -> None:
    speed = np.resize(np.linspace(0.5, 1.0, MOST_SPEEDS), (20, 8))
    assert classes_of_nodes(speed[None], np.ones((1, 20))).tolist() == list(range(20))


def test_some_speeds_on_many_different_nodes_are_many() -> None:
    """The engine's time grows with speeds and with classes of ranks: 30 speeds at random make every node another."""
    speed = np.random.default_rng(1).choice(np.linspace(0.5, 1.0, 30), (20, 8))
    assert len(np.unique(classes_of_nodes(speed[None], np.ones((1, 20))))) < 20


def test_nodes_have_one_class_in_all_states() -> None:
    """The slowest of every state is by itself in all of them."""
    first = np.random.default_rng(1).uniform(0.5, 1.0, (20, 8))
    second = first.copy()
    second[4, 2] = 0.1
    classes = classes_of_nodes(np.stack([first, second]), np.ones((2, 20)))
    for node in (4, int(first.min(axis=1).argmin())):
        assert (classes == classes[node]).sum() == 1


@pytest.mark.parametrize("networks", [(), (NETWORKS,)], ids=["devices", "devices and networks"])
@pytest.mark.parametrize("family", NAMED)
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


def test_stages_have_all_speeds_as_they_are() -> None:
    """A step of stages waits for the slowest of each, not for one node."""
    built = Pipeline(stages=4, micros=4, tensor=4, data=4).schedule()
    ill = Perturbation(spread=(DEVICES,))
    folded, exact = step(built, perturbation=ill), step(built, perturbation=ill, exact=True)
    assert speed_error(folded) is None
    assert folded.step_s == pytest.approx(exact.step_s, rel=1e-9)


def test_without_contention_all_speeds_are_as_they_are() -> None:
    built = schedule("zero3", frontier_mesh(8), shape=TINY)
    ill = Perturbation(spread=(DEVICES,))
    ran, exact = (step(built, fidelity="analytic", perturbation=ill, exact=each) for each in (False, True))
    assert speed_error(ran) is None
    assert ran.step_s == pytest.approx(exact.step_s, rel=1e-9)


@pytest.mark.parametrize("seed", [3, 4, 5])
@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
def test_the_error_that_is_stated_bounds_that_of_speeds_that_come_late(family: str, seed: int) -> None:
    """All devices slow down in the middle of the step."""
    built = schedule(family, frontier_mesh(8), shape=TINY)
    factors, half_s = np.random.default_rng(seed).uniform(0.6, 1.0, 64), step(built).step_s / 2.0
    late = tuple(SlowDevice(device=each, factor=factor, from_s=half_s) for each, factor in enumerate(factors.tolist()))
    classes, exact = (step(built, perturbation=Perturbation(slow=late), exact=each) for each in (False, True))
    stated = speed_error(classes)
    assert stated is not None and abs(classes.step_s / exact.step_s - 1.0) <= stated.step


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("family", ["zero3", "hsdp", "zero-topo"])
def test_up_to_32_speeds_folded_are_exact(family: str, seed: int) -> None:
    """Devices and networks drawn from distributions."""
    ill = Perturbation(spread=(replace(DEVICES, seed=seed), replace(NETWORKS, seed=seed)))
    built = schedule(family, frontier_mesh(4), shape=TINY, grad_accum=2)
    folded, exact = step(built, perturbation=ill), step(built, perturbation=ill, exact=True)
    assert folded.pricing.folding.num_rank_classes == MOST_SPEEDS and speed_error(folded) is None
    assert folded.step_s == pytest.approx(exact.step_s, rel=1e-9)


def test_a_table_is_a_list_of_slow_devices() -> None:
    factors = tuple(1.0 - 0.01 * number for number in range(48))
    built = schedule("zero3", frontier_mesh(6), shape=TINY)
    listed = step(built, perturbation=Perturbation(spread=(Spread(of="devices", listed=factors),)))
    slow = step(built, perturbation=perturbed(slow=dict(enumerate(factors))))
    assert (
        np.array_equal(listed.timeline.end, slow.timeline.end) and speed_error(listed) == speed_error(slow) is not None
    )


def test_calls_that_differ_do_so_on_devices_in_classes() -> None:
    kernels = Spread(of="kernels", distribution="normal", sd=0.02)
    built = schedule("zero3", frontier_mesh(5), shape=TINY)
    ill = step(built, perturbation=Perturbation(spread=(DEVICES, kernels)))
    assert ill.pricing.folding.num_rank_classes == 40 and len(np.unique(ill.pricing.fabric.speed)) <= MOST_SPEEDS
    usual = step(built, perturbation=Perturbation(spread=(DEVICES,)))
    of_ill, of_usual = speed_error(ill), speed_error(usual)
    assert of_ill is not None and of_usual is not None and of_ill.single == of_usual.single


def test_speeds_that_change_within_a_step_say_the_larger_error() -> None:
    built = schedule("zero3", frontier_mesh(6), shape=TINY)
    ill = Perturbation(spread=(DEVICES,), slow=(SlowDevice(device=9, factor=0.5, from_s=1e-4),))
    ran = step(built, perturbation=ill)
    errors = [state.pricing.fabric.devices.largest_difference for state in ran.states]
    stated = speed_error(ran)
    assert len(errors) == 2 and stated is not None and stated.single == max(errors)
