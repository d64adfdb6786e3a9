"""A machine that changes within a step: by hand on toys, folded = exact, and jobs that stop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simfrontier.answers.step import bounds
from simfrontier.core.engine import JobStopsError, SimulatedStep
from simfrontier.core.machine import (
    DegradedLink,
    DegradedNic,
    Perturbation,
    SlowDevice,
    SlowMemory,
    SlowNode,
    SlowPackage,
    load_machine,
)
from simfrontier.core.program.ir import Ref
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import find_model
from tests.core.engine.kernels import kernel, of
from tests.core.engine.pipelines import Pipeline
from tests.core.engine.singles import calls, mesh_of
from tests.core.engine.steps import schedule, step

TINY = find_model("tiny")

TOY_NODES = 3  # of four devices each
MESH = Mesh((("node", TOY_NODES), ("package", 2), ("gcd", 2)))
NO_GAP = {"device.kernel_gap_s": 0.0}


def slow(device: int, factor: float, **when: float) -> SlowDevice:
    return SlowDevice(device=device, factor=factor, **when)  # type: ignore[arg-type]


def nics(node: int, factor: float, *numbers: int, **when: float) -> tuple[DegradedNic, ...]:
    return tuple(DegradedNic(node=node, nic=nic, factor=factor, **when) for nic in numbers)  # type: ignore[arg-type]


# ── worked by hand ──

KERNELS = of((kernel("one", reads="d", writes="d"), kernel("two", reads="c", writes="c")))


def kernels(*troubles: SlowDevice) -> float:
    """Seconds of two kernels on two devices, one after the other: 2 * 4 B * (270,000 + 90,000) at 100 GB/s."""
    return step(KERNELS, "toy-pair", perturbation=Perturbation(slow=troubles), overrides=NO_GAP).step_s


def test_all_devices_at_four_fifths() -> None:
    healthy = kernels()
    assert kernels(slow(0, 0.8), slow(1, 0.8)) == pytest.approx(healthy / 0.8, rel=1e-9)
    assert kernels(slow(1, 0.8)) == pytest.approx(healthy / 0.8, rel=1e-9)  # the step is that of the slower one


def test_a_device_slows_down_and_comes_back() -> None:
    """At a quarter of its speed from 0.2 to 0.6 of the step: 0.4 t at a quarter do the work of 0.1 t, so 0.3 t more."""
    t = kernels()
    assert kernels(slow(0, 0.25, from_s=0.2 * t, until_s=0.6 * t)) == pytest.approx(1.3 * t, rel=1e-9)


def test_one_of_four_slow_before_a_collective() -> None:
    """All wait for the slow one: its kernels take 1/0.8 as long, the all-reduce as long as before."""
    work = calls(Mesh((("node", 1), ("gcd", 4))), ("all_reduce", ("gcd",), 1 << 20, "compute", "ring"))
    (call,) = work.roles[0].calls
    first = replace(kernel("before"), reads=(Ref("from0"),), writes=(Ref("from0"),))
    both = replace(work, roles=(replace(work.roles[0], calls=(replace(call, ops=(first, *call.ops)),)),))
    alone = step(work, "toy-cluster", overrides=NO_GAP).step_s
    healthy = step(both, "toy-cluster", overrides=NO_GAP).step_s
    lagging = step(both, "toy-cluster", perturbation=Perturbation(slow=(slow(2, 0.8),)), overrides=NO_GAP)
    assert lagging.step_s == pytest.approx((healthy - alone) / 0.8 + alone, rel=1e-9)


RING = calls(mesh_of(load_machine("toy-cluster"), 8), ("all_reduce", ("node", "gcd"), 64 << 20, "gather", "ring"))


def ring(**troubles: Any) -> float:
    return step(RING, "toy-cluster", perturbation=Perturbation(**troubles)).step_s


def test_a_dead_nic_with_another_way() -> None:
    """The other NIC of the node carries both halves: what is left takes twice as long."""
    t = ring()
    assert ring(nics=nics(0, 0.0, 0, from_s=t / 2)) == pytest.approx(1.5 * t, rel=1e-9)


INSIDE = calls(Mesh((("node", 1), ("gcd", 4))), ("all_gather", ("gcd",), 64 << 20, "gather", "ring"))


def inside(**troubles: Any) -> float:
    return step(INSIDE, "toy-cluster", perturbation=Perturbation(**troubles)).step_s


def test_a_dead_link_of_a_ring_goes_round_the_other_way() -> None:
    """One ring each way round. What link 0>1 carried takes 0>3, 3>2, 2>1, which the other ring fills already."""
    t = inside()
    dead = (DegradedLink(node=0, link="xgmi 0>1", factor=0.0, from_s=t / 2),)
    assert inside(links=dead) == pytest.approx(1.5 * t, rel=1e-9)


def test_a_device_that_is_cut_off_stops_the_job() -> None:
    names = ("xgmi 0>1", "xgmi 0>3")
    dead = tuple(DegradedLink(node=0, link=name, factor=0.0) for name in names)
    with pytest.raises(JobStopsError) as caught:
        inside(links=dead)
    assert str(caught.value).endswith(
        "all_gather 0: ranks 1-3 lost rank 0; dead, with no other way: node 0 xgmi 0>1, node 0 xgmi 0>3"
    )


def test_a_dead_device_stops_the_job() -> None:
    with pytest.raises(JobStopsError, match=r"in (one|two): rank 1 lost; dead: device 1$"):
        kernels(slow(1, 0.0, from_s=1e-6))


# ── folded = exact ──

TOYS = {family: schedule(family, MESH, TINY, grad_accum=2) for family in ("zero3", "zero-topo")}
HEALTHY_S = {family: step(built, "toy-cluster").step_s for family, built in TOYS.items()}
FACTORS = st.sampled_from([0.0, 0.1, 0.5, 0.9])


@st.composite
def troubles(draw: st.DrawFn, step_s: float) -> Perturbation:
    """Up to four troubles, most of them for a time; what is dead comes back."""
    lists: dict[str, list[Any]] = {}
    for _ in range(draw(st.integers(1, 4))):
        key, factor = draw(st.sampled_from(list(MAKE))), draw(FACTORS)
        begin, length = draw(st.floats(0.0, 1.2)) * step_s, draw(st.floats(0.01, 1.0)) * step_s
        when = {"from_s": begin, "until_s": begin + length} if factor == 0.0 or draw(st.booleans()) else {}
        lists.setdefault(key, []).append(MAKE[key](draw, factor, when))
    return Perturbation(**{key: tuple({each.thing: each for each in made}.values()) for key, made in lists.items()})


def _link(draw: st.DrawFn, factor: float, when: dict[str, float]) -> DegradedLink:
    link = draw(st.sampled_from([wire.name for wire in load_machine("toy-cluster").node.links]))
    return DegradedLink(node=draw(st.integers(0, TOY_NODES - 1)), link=link, factor=factor, **when)  # type: ignore[arg-type]


MAKE: dict[str, Any] = {
    "slow": lambda draw, factor, when: SlowDevice(device=draw(st.integers(0, 11)), factor=factor, **when),
    "packages": lambda draw, factor, when: SlowPackage(package=draw(st.integers(0, 5)), factor=factor, **when),
    "nodes": lambda draw, factor, when: SlowNode(node=draw(st.integers(0, 2)), factor=factor, **when),
    "memories": lambda draw, factor, when: SlowMemory(device=draw(st.integers(0, 11)), factor=factor, **when),
    "links": _link,
    "nics": lambda draw, factor, when: DegradedNic(
        node=draw(st.integers(0, 2)), nic=draw(st.integers(0, 1)), factor=factor, **when
    ),
}


def assert_folded_is_exact(folded: SimulatedStep, exact: SimulatedStep) -> None:
    of_rank = folded.pricing.folding.rank_class
    for name in ("ready", "start", "end"):
        ours, theirs = getattr(folded.timeline, name)[of_rank], getattr(exact.timeline, name)
        assert np.abs(ours - theirs).max() <= 1e-9 * exact.step_s, name


@pytest.mark.parametrize("family", TOYS)
@settings(max_examples=6, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_folded_is_exact_whatever_changes(family: str, data: st.DataObject) -> None:
    ill = data.draw(troubles(HEALTHY_S[family]))
    folded = step(TOYS[family], "toy-cluster", perturbation=ill)
    exact = step(TOYS[family], "toy-cluster", perturbation=ill, exact=True)
    assert_folded_is_exact(folded, exact)
    assert folded.step_s >= bounds(folded).step_s * (1 - 1e-9)


PIPELINES = {
    "tensor in a node": Pipeline(stages=3, micros=3, tensor=4),
    "tensor over packages, data over nodes": Pipeline(
        stages=3, micros=2, tensor=2, data=2, axes=("data", "stage", "tensor"), apart=True, reduce_lane="reduce"
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
@settings(max_examples=3, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_pipelines_folded_are_exact_whatever_changes(name: str, data: st.DataObject) -> None:
    """Calls that run as a whole go on op by op when the machine changes, with the times of every op by itself."""
    built = PIPELINES[name].schedule()
    ill = data.draw(troubles(step(built, "toy-cluster").step_s))
    folded, exact = (step(built, "toy-cluster", perturbation=ill, exact=one) for one in (False, True))
    assert folded.step_s == pytest.approx(exact.step_s, rel=1e-9)
    for rank in range(built.mesh.num_ranks):
        cls = int(folded.pricing.folding.rank_class[rank])
        ours, theirs = folded.view(cls), exact.view(rank)
        for name in ("ready", "start", "end"):
            here = getattr(ours.timeline, name)[ours.classes.index(cls)]
            there = getattr(theirs.timeline, name)[theirs.classes.index(rank)]
            assert np.abs(here - there).max() <= 1e-9 * exact.step_s, (rank, name)
