"""Which of bound, analytic and flow is never below which: what always holds, what does not, and where it does.

bound <= flow         always: no lane and no wire of a simulated step is faster than alone and at full capacity
lane bound <= analytic  always; not the link bound, because ops that share a wire do not slow each other there
analytic <= flow      where the groups of a call that share a link are alike, so that they always run together
"""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from simfrontier.answers.step.volumes import bounds
from simfrontier.core.collectives import Library, load_library
from simfrontier.core.cost import Prices
from simfrontier.core.engine import SimulatedStep, simulate_step
from simfrontier.core.machine import HEALTHY, Machine, Perturbation, load_machine
from simfrontier.core.program.ir import Schedule
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.workload import GptShape
from tests.core.engine.steps import NAMED, schedule
from tests.perturbed import perturbed

NEAR = 1 + 1e-9


def groups_are_alike(step: SimulatedStep) -> bool:
    """Whether every op takes, alone with all its groups, no longer than with those alone that are like each."""
    pricing = step.pricing
    for _, op in (result for role in step.schedule.roles for result in role.instances()):
        for work in pricing.of(op).works:
            if work.amount > 0.0:
                flow = pricing.flows[work.flow]
                used = flow.load > 0.0
                links = pricing.folding.capacity[flow.rows[used]] / flow.load[used]
                fastest = min(float(links.min(initial=np.inf)), flow.cap)
                if work.alone > fastest * NEAR or work.alone * NEAR < fastest:
                    return False
    return True


def check(flow: SimulatedStep, alone: SimulatedStep) -> bool:
    """Hold a step to what always holds, and, where groups are alike, to all of it; whether they are."""
    lowest, alike = bounds(flow), groups_are_alike(flow)
    assert lowest.step_s <= flow.step_s * NEAR
    assert lowest.lane_s <= alone.step_s * NEAR
    if alike:
        assert alone.step_s <= flow.step_s * NEAR
    return alike


def on(made: Schedule, machine: Machine, library: Library, fault: Perturbation) -> tuple[SimulatedStep, SimulatedStep]:
    return simulate_step(made, machine, library, "flow", fault), simulate_step(
        made, machine, library, "analytic", fault
    )


# ── random steps ──


def random_step(draw: Random) -> tuple[SimulatedStep, SimulatedStep]:
    """A plan of the ZeRO family on a machine, with any engine, healthy or with a slow device: flow and analytic."""
    machine = load_machine(draw.choice(["frontier", "perlmutter", "lassen", "toy-cluster", "toy-tree"]))
    nodes, per_package = draw.choice([1, 2, 3, 4, 8]), machine.devices_per_package
    mesh = Mesh((("node", nodes), ("package", machine.devices_per_node // per_package), ("gcd", per_package)))
    shape = GptShape(
        name="small",
        num_layers=draw.choice([1, 2]),
        hidden=draw.choice([64, 512]),
        heads=4,
        vocabulary=512,
        sequence=draw.choice([64, 512]),
        source="test",
    )
    built = schedule(
        draw.choice(NAMED),
        mesh,
        shape,
        grad_accum=draw.choice([1, 2]),
        overlap=draw.random() < 0.8,
        persistence_elements=draw.choice([0, 100_000]),
        prefetch_elements=draw.choice([0, 50_000, 50_000_000]),
        live_elements=draw.choice([100_000, 10**9]),
        reuse_elements=draw.choice([0, 10**9]),
        reduce_bucket_elements=draw.choice([30_000, 5 * 10**8]),
        outstanding_fetches=draw.choice([1, 2]),
        blocking=draw.choice(["host", "stream"]),
        granularity=draw.choice(["module", "layer"]),
    )
    slow = {draw.randrange(mesh.num_ranks): draw.choice([0.3, 0.7])}
    fault = perturbed(slow=slow) if draw.random() < 0.4 else HEALTHY
    library = load_library(draw.choice(["rccl", "nccl", "cray-mpich"]))
    flow, alone = on(built, machine, library, fault)
    _no_op_is_below_its_floor(flow, Prices(machine, library, mesh.num_ranks, fault))
    return flow, alone


def _no_op_is_below_its_floor(step: SimulatedStep, prices: Prices) -> None:
    """What `tune` takes as the least time of an op, however its groups come together."""
    assert step.program is not None
    took = (step.timeline.end - step.timeline.start).min(axis=0)
    for op, seconds in zip(step.program.ops, took.tolist(), strict=True):
        if op.kind != "hook":
            assert prices.floor_s(op, step.schedule) <= seconds * NEAR, op.name  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(2))
def test_random_steps_keep_to_the_order(seed: int) -> None:
    draw = Random(seed)
    alike = [check(*random_step(draw)) for _ in range(6)]
    assert any(alike)
