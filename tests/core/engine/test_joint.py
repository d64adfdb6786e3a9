"""Two jobs on one machine: shared links by hand, and folded = exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simfrontier.core.collectives import load_library
from simfrontier.core.engine import Neighbour, SimulatedStep, simulate_step
from simfrontier.core.machine import HEALTHY, BusyPools, JobNodes, Machine, Perturbation, load_machine
from simfrontier.core.program import Collective, segmented_roles
from simfrontier.core.program.ir import Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import find_model
from tests.core.engine.singles import calls
from tests.core.engine.steps import schedule

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
    beside = None if beside is None else replace(beside, perturbation=ill)
    return simulate_step(built, on(*nodes), LIBRARY, perturbation=ill, exact=exact, beside=beside)


MINE, THEIRS = (0, 4, 1, 5), (2, 6, 3, 7)  # both to and fro between groups 0 and 1
LONG = 64 << 20


def parts_of(num_bytes: int) -> tuple[float, float]:
    """Seconds of a ring by itself, held up between the groups, whose links have half of their capacity: its latency,
    and what comes after it."""
    alone = step(ring(4, num_bytes), *MINE, left=0.5)
    (call,) = (op for op in alone.ops if isinstance(op, Collective))
    latency_s = alone.pricing.of(call).works[0].latency_s
    return latency_s, alone.step_s - latency_s


def test_two_equal_jobs_have_half_of_the_links_between_groups_each() -> None:
    """Both begin and end together, so what comes after the latency takes twice as long."""
    latency_s, flow_s = parts_of(LONG)
    both = step(ring(4), *MINE, beside=neighbour(ring(4), *THEIRS), left=0.5)
    assert both.step_s == pytest.approx(latency_s + 2 * flow_s, rel=1e-9) and both.is_shared


def test_the_other_job_begins_anew_until_this_one_is_done() -> None:
    """Three calls one after another beside single ones: there is always one of the other job's under way."""
    latency_s, flow_s = parts_of(LONG)
    both = step(ring(4, times=3), *MINE, beside=neighbour(ring(4), *THEIRS), left=0.5)
    assert both.step_s == pytest.approx(3 * (latency_s + 2 * flow_s), rel=1e-9)


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


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
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
    of_rank = folded.pricing.folding.rank_class
    ours, right = folded.timeline.end[of_rank], exact.timeline.end
    assert np.abs(ours - right).max() <= 1e-9 * exact.step_s
