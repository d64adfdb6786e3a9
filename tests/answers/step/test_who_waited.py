"""Who waited for whom: worked by hand on four devices, and sums that hold for any plan and perturbation."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from simfrontier.answers.explain.explanation import waits_of
from simfrontier.answers.step import who_waited
from simfrontier.answers.study import BuiltSchedule, ScheduleCache, simulated
from simfrontier.core.codecs import parse_codec
from simfrontier.core.engine import Fidelity
from simfrontier.core.machine import Perturbation, SlowDevice, load_machine
from simfrontier.core.program.ir import Collective, Compute, Ref, Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.inputs.scenario import Scenario, load_scenario
from tests.core.engine.kernels import kernel, of
from tests.core.engine.steps import step
from tests.invoke import TOY
from tests.perturbed import perturbed

NO_GAP = {"device.kernel_gap_s": 0.0}
# The kernel reads and writes 4 B * 270,000 each at 100 GB/s.
KERNEL_S = 2 * 4 * 270_000 / 100e9


def one_all_reduce() -> Schedule:
    """A kernel on each of four devices, and an all-reduce of what it writes."""
    gather = Collective(
        kind="all_reduce",
        name="sum",
        axes=("gcd",),
        src=(Ref("d"),),
        dst=(Ref("c"),),
        codec=parse_codec("fp32"),
        lane="reduce",
        comm="reduce",
    )
    made = of((kernel("one", reads="d", writes="d"), gather))
    return replace(made, mesh=Mesh((("gcd", 4),)))


def test_three_wait_for_the_one_at_half_its_speed() -> None:
    """Kernels take t on three devices and 2 t on the one at 0.5, so each of the three waits t, with no kernel."""
    slow = Perturbation(slow=(SlowDevice(device=2, factor=0.5),))
    found = who_waited(step(one_all_reduce(), "toy-quad", perturbation=slow, overrides=NO_GAP))
    late = int(found.rank_class[2])
    assert {pair.late for pair in found.pairs} == {late}
    assert sorted(rank for pair in found.pairs for rank in found.ranks(pair.waiting).tolist()) == [0, 1, 3]
    for pair in found.pairs:
        assert pair.seconds == pytest.approx(KERNEL_S, rel=1e-9)
        assert pair.exposed_s == pytest.approx(KERNEL_S, rel=1e-9)
        assert pair.calls == 1
        assert pair.names == ("all-reduces over gcd (inside a node)",)
    assert found.kernel_s[late] == pytest.approx(2 * KERNEL_S, rel=1e-9)
    told = waits_of(found, np.arange(4), load_machine("toy-quad"))
    assert told.sentence == (
        "GCDs 0-1,3 of node 0 waited 22 µs of the step for GCD 2 of node 0 to arrive, 22 µs of it with no kernel "
        "running (its kernels take 2 × as long)"
    )
    assert told.longest_s == pytest.approx(KERNEL_S, rel=1e-9)


@cache
def toy(plan: str) -> tuple[Scenario, BuiltSchedule]:
    one = load_scenario(TOY, plans=(plan,), devices=(8,))
    return one, ScheduleCache().of_case(one, one.case(plan, 8))


@pytest.mark.parametrize("fidelity", ["flow", "analytic"])
@pytest.mark.parametrize(("plan", "device", "factor"), [("ddp", 5, 0.5), ("zero3", 0, 0.8), ("zero-topo", 6, 0.97)])
def test_waits_of_a_class_are_the_sum_over_its_pairs_and_of_its_calls(
    plan: str, device: int, factor: float, fidelity: Fidelity
) -> None:
    """Against a plain sum over every op of start less readiness; a call starts when the last of its group is ready."""
    ran = simulated(*toy(plan), fidelity, perturbation=perturbed(slow={device: factor}))
    found = who_waited(ran)
    for cls in range(ran.pricing.folding.num_rank_classes):
        view = ran.view(cls)
        row = view.classes.index(cls)
        meets = np.array([not isinstance(op, Compute) for op in view.ops])
        waits = (view.timeline.start[row] - view.timeline.ready[row])[meets].sum()
        assert found.waited_s[cls] == pytest.approx(waits, rel=1e-9, abs=1e-11 * ran.step_s)
        mine = [pair.seconds for pair in found.pairs if pair.waiting == cls]
        assert found.waited_s[cls] == pytest.approx(sum(mine), rel=1e-12)
    assert all(-1e-12 <= pair.exposed_s <= pair.seconds * (1 + 1e-9) for pair in found.pairs)
    assert all(pair.waiting != pair.late for pair in found.pairs)


def test_folded_waits_are_those_of_every_rank() -> None:
    """With every rank a class of its own each waits as long as the one that stands for it."""
    slow = perturbed(slow={3: 0.7})
    folded, exact = (who_waited(simulated(*toy("zero3"), "flow", e, perturbation=slow)) for e in (False, True))
    assert len(folded.waited_s) < len(exact.waited_s) == 8
    assert exact.waited_s == pytest.approx(folded.waited_s[folded.rank_class], rel=1e-9, abs=1e-15)
