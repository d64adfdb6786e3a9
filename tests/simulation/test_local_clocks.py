"""The engine for many rank classes: the times of the one that has a single clock, and its cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.collectives import load_library
from simfrontier.cost import Cluster, price
from simfrontier.errors import SimfrontierError
from simfrontier.machine import Perturbation, Spread, load_machine
from simfrontier.schedule import Compute, Ref, Schedule, SegmentedProgram, expand
from simfrontier.simulation import Timeline, simulate, which_engine
from simfrontier.simulation.flow_rates import FlowRates
from simfrontier.simulation.flows import INSTANT_S
from simfrontier.simulation.local_clocks import simulate_many
from simfrontier.simulation.op_tables import op_tables
from simfrontier.workload import find_model
from tests.perturbed import perturbed
from tests.simulation.singles import calls
from tests.simulation.steps import NAMED, frontier_mesh, schedule
from tests.simulation.test_units_held import MESH, made

EQUAL = 1e-12  # of the step: instants of the single clock are 1e-12 s wide, and it sums in another order
TINY = find_model("tiny")


def slow(num_devices: int, worst: float = 0.7) -> Perturbation:
    """Every device at a speed of its own."""
    return perturbed(slow={number: 1.0 - (1.0 - worst) * number / num_devices for number in range(num_devices)})


def priced(
    built: Schedule, perturbation: Perturbation, machine: str = "frontier", exact: bool = False, **overrides: Any
) -> Cluster:
    return price(built, load_machine(machine, overrides), load_library("rccl"), perturbation, exact)


def both(monkeypatch: pytest.MonkeyPatch, built: Schedule, cluster: Cluster) -> tuple[Timeline, Timeline]:
    """A step on local clocks, and on one."""
    program = expand(built, built.roles[0])
    many = simulate_many(program, cluster)
    monkeypatch.setattr(which_engine, "MOST_ON_ONE_CLOCK", 10**9)
    return many, simulated(built, cluster)


def simulated(built: Schedule, cluster: Cluster) -> Timeline:
    """Every op a node, on whichever clocks it is to be."""
    (role,) = built.roles
    (result,) = simulate([SegmentedProgram.of_ops(built, role)], cluster)
    return result.timeline


def solved_sets(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """The sets of flows whose rates are solved for from now on."""
    sets, solved = list[tuple[int, ...]](), FlowRates.solved

    def noting(rates: FlowRates, flows: tuple[int, ...]) -> dict[int, float]:
        sets.append(flows)
        return solved(rates, flows)

    monkeypatch.setattr(FlowRates, "solved", noting)
    return sets


def difference(one: Timeline, other: Timeline) -> float:
    """Between times of two steps, as a part of the step."""
    return max(
        float(np.abs(getattr(one, name) - getattr(other, name)).max()) / other.step_s
        for name in ("ready", "start", "end")
    )


@pytest.mark.parametrize("overlap", [True, False])
@pytest.mark.parametrize("family", NAMED)
def test_as_on_one_clock(family: str, overlap: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    built = schedule(family, frontier_mesh(1), overlap=overlap)
    many, one = both(monkeypatch, built, priced(built, slow(8)))
    assert len(many.end) == 8
    assert difference(many, one) <= EQUAL


@pytest.mark.parametrize(
    ("family", "hbm_share"),
    [("zero3", 0.08), ("zero3", 0.18), ("zeropp", 0.08), ("zeropp", 0.2), ("zero-topo", 0.08), ("zero-topo", 0.2)],
)
def test_kernels_that_slow_collectives(family: str, hbm_share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a part of the memory's bandwidth, kernels leave a collective less than its wires carry: at 0.08 all of them,
    at 0.2 those that copy. Its rate then depends on what each rank does, and is solved for together with that."""
    built = schedule(family, frontier_mesh(2))
    cluster = priced(built, perturbed(slow={3: 0.7, 12: 0.9}), **{"device.hbm_share": hbm_share})
    solved, program = solved_sets(monkeypatch), expand(built, built.roles[0])
    first = simulate_many(program, cluster)
    kernels = set(op_tables(program, cluster).flow.ravel().tolist()) - {-1}
    assert any(kernels.intersection(flows) for flows in solved)
    many, one = both(monkeypatch, built, cluster)
    assert difference(many, one) <= EQUAL
    assert np.array_equal(many.end, first.end)


def test_a_kernel_after_a_small_call_slows_a_large_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """The small call loads nothing, but lets a kernel start that copies while the large one runs."""
    sizes = ((2**30, "large"), (2**26, "lane"), (512, "lane"))
    sent = calls(MESH, *(("all_gather", MESH.names, size, lane, "ring") for size, lane in sizes))
    copy = Compute(kind="permute", name="copy", reads=(Ref("a"), Ref("to2")), writes=(Ref("copy.out"),), lane="compute")
    slowed, alone = made(copy, messages=sent), made(messages=sent)
    many, one = both(monkeypatch, slowed, priced(slowed, slow(16), **{"device.hbm_share": 0.1}))
    assert difference(many, one) <= EQUAL
    by_itself = simulate_many(expand(alone, alone.roles[0]), priced(alone, slow(16), **{"device.hbm_share": 0.1}))
    assert many.end[0, 0] > 1.001 * by_itself.end[0, 0]


factors = st.lists(st.sampled_from([1.0, 0.9, 0.75, 0.5]), min_size=16, max_size=16)


@given(
    family=st.sampled_from(NAMED),
    nodes=st.integers(1, 2),
    speeds=factors,
    link=st.sampled_from([None, "nic1>net", "xgmi 0>2"]),
    grad_accum=st.integers(1, 2),
    hbm_share=st.sampled_from([0.85, 0.2, 0.03]),
    hook_s=st.sampled_from([0.0, 2e-5]),
    exact=st.booleans(),
)
@settings(deadline=None, max_examples=25)
def test_as_on_one_clock_whatever_is_slow(
    family: str,
    nodes: int,
    speeds: list[float],
    link: str | None,
    grad_accum: int,
    hbm_share: float,
    hook_s: float,
    exact: bool,
) -> None:
    built = schedule(family, frontier_mesh(nodes), shape=TINY, grad_accum=grad_accum)
    ill = perturbed(slow=dict(enumerate(speeds[: 8 * nodes])), links={} if link is None else {(nodes - 1, link): 0.4})
    cluster = priced(built, ill, exact=exact, **{"device.hbm_share": hbm_share, "host.hook_s": hook_s})
    with pytest.MonkeyPatch.context() as patch:
        many, one = both(patch, built, cluster)
    assert difference(many, one) <= EQUAL


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("family", ["zero3", "hsdp", "zero-topo"])
def test_all_that_differs_on_one_clock_and_unfolded(family: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Devices and networks drawn from distributions: on many clocks, on one, and with no rank folded."""
    devices = Spread(of="devices", distribution="normal", sd=0.08, seed=seed)
    networks = Spread(of="networks", distribution="uniform", width=0.4, seed=seed)
    built, ill = schedule(family, frontier_mesh(4), shape=TINY, grad_accum=2), Perturbation(spread=(devices, networks))
    cluster = priced(built, ill)
    many, one = both(monkeypatch, built, cluster)
    assert cluster.folding.num_rank_classes == 32
    # On the single clock what ends within an instant ends together: one more may add up with every op.
    assert np.abs(many.end - one.end).max() <= INSTANT_S * many.end.shape[1]
    unfolded = simulate_many(expand(built, built.roles[0]), priced(built, ill, exact=True))
    assert unfolded.end.max() == pytest.approx(many.end.max(), rel=1e-9)


def test_a_table_is_a_list_of_slow_devices() -> None:
    factors = tuple(1.0 - 0.01 * number for number in range(16))
    built = schedule("zero3", frontier_mesh(2), shape=TINY)
    listed = priced(built, Perturbation(spread=(Spread(of="devices", listed=factors),)))
    slow_ones = priced(built, perturbed(slow=dict(enumerate(factors))))
    assert np.array_equal(simulated(built, listed).end, simulated(built, slow_ones).end)


def test_many_classes_are_simulated_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """More than `MOST_ON_ONE_CLOCK`. No kernel of 48 different GCDs is solved for together with a collective."""
    built = schedule("zero3", frontier_mesh(6))
    one_slow, all_slow = priced(built, perturbed(slow={0: 0.7})), priced(built, slow(48))
    solved = solved_sets(monkeypatch)
    assert len(simulated(built, one_slow).end) <= which_engine.MOST_ON_ONE_CLOCK
    assert len(solved) > 50
    solved.clear()
    assert len(simulated(built, all_slow).end) == 48 > which_engine.MOST_ON_ONE_CLOCK
    assert len(solved) <= 5


def test_same_input_same_times() -> None:
    built = schedule("zeropp", frontier_mesh(2), shape=TINY)
    program = expand(built, built.roles[0])
    first, second = (simulate_many(program, priced(built, slow(16))) for _ in range(2))
    assert all(np.array_equal(getattr(first, name), getattr(second, name)) for name in ("ready", "start", "end"))


def test_a_step_that_cannot_end_says_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """An op that waits for an op behind it in its own lane never starts."""
    built = schedule("ddp", frontier_mesh(1), shape=TINY)
    program = expand(built, built.roles[0])
    lane = program.lane[0]
    waits = [((lane, 10**6),), *program.waits[1:]]
    with pytest.raises(SimfrontierError, match=r"stuck: rank class 0: .* waits for .* 0/1000000"):
        simulate_many(replace(program, waits=waits), priced(built, slow(8)))
