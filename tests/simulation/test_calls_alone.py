"""What calls load, and that undisturbed calls are run once and stand for all that are alike."""

from __future__ import annotations

import numpy as np

from simfrontier.collectives import load_library
from simfrontier.cost import price
from simfrontier.machine import load_machine
from simfrontier.schedule.segments import segmented
from simfrontier.simulation.context import EngineContext
from simfrontier.simulation.flow_rates import bits
from tests.simulation.pipelines import Pipeline
from tests.simulation.test_pipelines import run
from tests.some import some


def test_a_call_loads_what_its_ops_load() -> None:
    """Every call of both stages: the links of its ops' flows on the rank classes that run it."""
    built = Pipeline(tensor=2).schedule()
    pricing = price(built, load_machine("toy-cluster"), load_library("rccl"))
    context, loads = EngineContext(pricing), set[int]()
    for number, role in enumerate(built.roles):
        part, classes = segmented(built, role), tuple(np.flatnonzero(pricing.role_of == number).tolist())
        for node in some(node for node, block in enumerate(part.blocks) if block is not None):
            expected = 0
            for op in part.block(node):
                group_of = pricing.folding.activity_of(pricing.of(op).pattern)
                for work in [pricing.of(op).works[group_of[cls]] for cls in classes]:
                    flows = [pricing.flows[at] for at in (work.flow, work.starting) if at >= 0 and work.amount > 0.0]
                    for flow in flows:
                        expected |= bits(flow.rows[(flow.load > 0.0) | (flow.reserved > 0.0)])
            assert context.load(part, node, classes) == expected
            loads.add(expected)
    assert len(loads) == 2  # each stage its own links


def test_calls_that_nothing_disturbs_are_run_as_a_whole() -> None:
    """Every call of several ops of a plain pipeline: none is run op by op."""
    one = run(Pipeline())
    assert all(role.by_node and not role.by_class for role in some(one.roles))
