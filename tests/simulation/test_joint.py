"""Two jobs on one machine: what they share, worked by hand, and folded = exact."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simfrontier.collectives import load_library
from simfrontier.errors import InputError
from simfrontier.machine import HEALTHY, BusyPools, JobNodes, Machine, Perturbation, load_machine
from simfrontier.schedule import segmented_roles
from simfrontier.schedule.ir import Schedule
from simfrontier.schedule.mesh import Mesh
from simfrontier.simulation import Neighbour, SimulatedStep, simulate_step
from simfrontier.workload import find_model
from tests.invoke import TOY, refusal
from tests.simulation.singles import calls
from tests.simulation.steps import schedule

MACHINE, LIBRARY = load_machine("toy-cluster"), load_library("rccl")  # four groups of four nodes of four devices


def on(*nodes: int) -> Machine:
    return replace(MACHINE, job_nodes=JobNodes(placement="list", listed=nodes))


def ring(num_nodes: int, num_bytes: int = 64 << 20, times: int = 1) -> Schedule:
    mesh = Mesh((("node", num_nodes), ("gcd", 4)))
    return calls(mesh, *[("all_reduce", ("node", "gcd"), num_bytes, "gather", "ring")] * times)  # type: ignore[list-item]


def neighbour(built: Schedule, *nodes: int) -> Neighbour:
    return Neighbour(
        schedule=built,
        machine=on(*nodes),
        library=LIBRARY,
        perturbation=HEALTHY,
        placement="block",
        parts=segmented_roles(built),
    )


def step(
    built: Schedule, *nodes: int, beside: Neighbour | None = None, left: float = 1.0, exact: bool = False
) -> SimulatedStep:
    ill = Perturbation(background=(BusyPools(factor=left),)) if left < 1.0 else HEALTHY
    return simulate_step(built, on(*nodes), LIBRARY, perturbation=ill, exact=exact, beside=beside)


def test_two_equal_jobs_have_half_of_the_links_between_groups_each() -> None:
    """Rings that go to and fro between groups 0 and 1, and are held up there: both begin and end together, so each is
    as slow as with half of the links to itself."""
    mine, theirs = (0, 4, 1, 5), (2, 6, 3, 7)
    alone, half = step(ring(4), *mine).step_s, step(ring(4), *mine, left=0.5).step_s
    both = step(ring(4), *mine, beside=neighbour(ring(4), *theirs))
    assert half > 1.5 * alone
    assert both.step_s == pytest.approx(half, rel=1e-9) and both.is_shared


def test_the_other_job_begins_anew_until_this_one_is_done() -> None:
    """Three calls one after another beside single ones: there is always one of the other job's under way."""
    mine, theirs = (0, 4, 1, 5), (2, 6, 3, 7)
    both = step(ring(4, times=3), *mine, beside=neighbour(ring(4), *theirs))
    assert both.step_s == pytest.approx(step(ring(4, times=3), *mine, left=0.5).step_s, rel=1e-9)


def test_a_short_job_beside_a_long_one_is_not_slower_for_what_comes_after_it() -> None:
    mine, theirs = (0, 4, 1, 5), (2, 6, 3, 7)
    short = step(ring(4, 32 << 20), *mine, beside=neighbour(ring(4), *theirs)).step_s
    assert short == pytest.approx(step(ring(4, 32 << 20), *mine, left=0.5).step_s, rel=1e-9)


def test_jobs_in_groups_of_their_own_do_not_meet() -> None:
    alone = step(ring(4), 0, 1, 2, 3)
    both = step(ring(4), 0, 1, 2, 3, beside=neighbour(ring(4), 4, 5, 6, 7))
    assert both.step_s == alone.step_s and not both.is_shared


FAMILIES = ("zero3", "zero-topo", "hsdp", "zeropp")
TINY = find_model("tiny")
BUILT = {
    (family, nodes): schedule(family, Mesh((("node", nodes), ("package", 2), ("gcd", 2))), TINY)
    for family in FAMILIES
    for nodes in (2, 4)
}


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    families=st.tuples(st.sampled_from(FAMILIES), st.sampled_from(FAMILIES)),
    sizes=st.tuples(st.sampled_from([2, 4]), st.sampled_from([2, 4])),
    nodes=st.permutations(range(16)),
)
def test_folded_is_exact_beside_another_job(
    families: tuple[str, str], sizes: tuple[int, int], nodes: list[int]
) -> None:
    mine, theirs = BUILT[families[0], sizes[0]], BUILT[families[1], sizes[1]]
    own, others = nodes[: sizes[0]], nodes[sizes[0] : sizes[0] + sizes[1]]
    folded, exact = (step(mine, *own, beside=neighbour(theirs, *others), exact=one) for one in (False, True))
    of_rank = folded.cluster.folding.rank_class
    ours, right = folded.timeline.end[of_rank], exact.timeline.end
    assert np.abs(ours - right).max() <= 1e-9 * exact.step_s


def test_other_fidelities_have_no_neighbours() -> None:
    beside = neighbour(ring(4), 2, 6, 3, 7)
    with pytest.raises(InputError, match="needs fidelity flow"):
        simulate_step(ring(4), on(0, 4, 1, 5), LIBRARY, "analytic", beside=beside)


@pytest.mark.parametrize(
    ("settings_", "message"),
    [
        (["neighbour.scenario=no.toml"], "neighbour: no.toml: cannot read this scenario"),
        ([f"neighbour.scenario={TOY}", "neighbour.plan=zero4"], 'neighbour.plan: plan "zero4": did you mean "zero3"?'),
        ([f"neighbour.scenario={TOY}", "neighbour.devices=64"], "neighbour.devices: got 64 devices on 16 nodes; toy-"),
        ([f"neighbour.scenario={TOY}", "neighbour.plans=x"], 'neighbour.plans: unknown key; did you mean "plan"?'),
    ],
)
def test_what_cannot_be_is_one_line(tmp_path: Path, settings_: list[str], message: str) -> None:
    given_ = [word for setting in settings_ for word in ("--set", setting)]
    assert message in refusal("run", TOY, "--devices", "8", "--plans", "zero3", "--out", tmp_path / "out", *given_)
