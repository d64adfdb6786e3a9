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
from simfrontier.scenario import load_scenario
from simfrontier.schedule import Collective, segmented_roles
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
    beside = None if beside is None else replace(beside, perturbation=ill)
    return simulate_step(built, on(*nodes), LIBRARY, perturbation=ill, exact=exact, beside=beside)


MINE, THEIRS = (0, 4, 1, 5), (2, 6, 3, 7)  # both to and fro between groups 0 and 1
SHORT, LONG = 32 << 20, 64 << 20


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


def test_a_short_job_beside_a_long_one_is_not_slower_for_what_comes_after_it() -> None:
    """Its latency ends first, so for a while it has all of the links; then half of them until its end."""
    (first_s, flow_s), (other_s, _) = parts_of(SHORT), parts_of(LONG)
    short = step(ring(4, SHORT), *MINE, beside=neighbour(ring(4, LONG), *THEIRS), left=0.5).step_s
    assert short == pytest.approx(other_s + 2 * (flow_s - (other_s - first_s)), rel=1e-9)


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
    of_rank = folded.pricing.folding.rank_class
    ours, right = folded.timeline.end[of_rank], exact.timeline.end
    assert np.abs(ours - right).max() <= 1e-9 * exact.step_s


def test_other_fidelities_have_no_neighbours() -> None:
    beside = neighbour(ring(4), 2, 6, 3, 7)
    with pytest.raises(InputError, match="fidelity analytic has no job beside another"):
        simulate_step(ring(4), on(0, 4, 1, 5), LIBRARY, "analytic", beside=beside)


OTHERS = """
[machine]
overrides = { "dragonfly.nodes_per_group" = 2, "dragonfly.num_groups" = 8 }
[perturbation]
slow = [{ device = 0, factor = 0.5 }]
[nodes]
list = [1, 5, 9]
[plans.zero3]
[plans.sought]
family = "axonn"
search = { values = { tensor = [2] } }
"""


@pytest.mark.parametrize(
    ("tables", "settings_", "message"),
    [
        ((), ["scenario=no.toml"], "scenario: no.toml: cannot read this scenario"),
        ((), ["plan=zero4"], 'plan: plan "zero4": did you mean "zero3"?'),
        ((), ["devices=64"], "devices: got 64 devices on 16 nodes; toy-cluster has 14 left"),
        ((), ["plans=x"], 'plans: unknown key; did you mean "plan"?'),
        (("machine",), [], "scenario: got a scenario whose machine has another dragonfly; allowed: of toy-cluster"),
        (("perturbation",), [], "has a table perturbation; allowed: none, this scenario's counts for both"),
        (("nodes",), ["devices=16"], "devices: got 16 devices, which need 4 nodes; its nodes.list has 3"),
        (("nodes",), ["devices=8"], "scenario: node 1 is of both jobs; allowed: others in its nodes.list"),
        (("plans.sought",), ["plan=sought"], "is searched for; allowed: a plan with all its sizes"),
    ],
)
def test_what_cannot_be_is_one_line(
    tmp_path: Path, tables: tuple[str, ...], settings_: list[str], message: str
) -> None:
    """The other scenario is the toy with more tables; `run` and `tune` say the same at once."""
    chosen = [part for part in OTHERS.split("\n[") if part.strip("[\n").split("]")[0] in tables]
    other = tmp_path / "other.toml"
    text = TOY.read_text(encoding="utf-8").replace("devices = [2, 4, 8, 16]", "devices = [8]")
    for part in chosen:
        head, _, keys = part.strip("[\n").partition("]")
        text = text.replace(f"[{head}]", f"[{head}]{keys}", 1) if f"[{head}]" in text else f"{text}\n[{head}]{keys}\n"
    other.write_text(text, encoding="utf-8")
    given_ = [f"neighbour.{setting}" for setting in [f"scenario={other}", *settings_]]
    words = [word for setting in given_ for word in ("--set", setting)]
    got = refusal("run", TOY, "--devices", "8", "--plans", "zero3", "--out", tmp_path / "out", *words)
    assert got.startswith(f"{TOY}: ") and "neighbour." in got and message in got
    assert message in refusal("tune", TOY, "--devices", "8", "--out", tmp_path / "out", *words)


def test_a_job_beside_itself() -> None:
    """A scenario may name itself: its own `neighbour` plays no part in the other."""
    scenario = load_scenario(TOY, {"neighbour.scenario": str(TOY)}, ("zero3",), (8,))
    assert scenario.beside is not None and scenario.beside.beside is None
    assert scenario.beside_words == "zero3 of toy on 16 GCDs"
