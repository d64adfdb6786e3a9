"""Walks of rank classes through simulated steps: who meets whom, and the same ops in nodes and one by one."""

from __future__ import annotations

from collections import Counter
from functools import cache

import numpy as np

from simfrontier.scenario import load_scenario
from simfrontier.schedule import Collective, Exchange
from simfrontier.simulation import SimulatedStep, Walk, meetings, walks_of
from simfrontier.study import ScheduleCache, simulated
from tests.invoke import ROOT


@cache
def piped() -> SimulatedStep:
    """Two stages of two by two ranks, each a class of its own, whose calls were simulated as a whole where they may."""
    scenario = load_scenario(ROOT / "scenarios" / "compressed-3d.toml", {}, ("plain",), (8,))
    return simulated(scenario, ScheduleCache().get(scenario, "plain", 8), "flow", False)


def test_ranks_meet_those_of_their_group_at_the_same_call_of_it() -> None:
    step, seen = piped(), Counter[tuple[str, str, int, int]]()
    walks = walks_of(step)
    for op, places in meetings(walks):
        ranks = [walks[number].members[0] for number, _ in places]
        axes = op.axes if isinstance(op, Collective) else (op.axis,)
        assert any(set(ranks) <= set(group) for group in step.schedule.mesh.groups(axes).tolist())
        assert len(ranks) == (2 if isinstance(op, Exchange) else step.schedule.mesh.size(axes))
        for number, place in places:
            assert walks[number].ops[place] == op
        calls = {(walks[number].calls[place].layer, walks[number].calls[place].micro) for number, place in places}
        assert len(calls) == 1 or isinstance(op, Exchange)
        assert len({float(walks[number].start_s[place]) for number, place in places}) == 1
        seen.update((type(op).__name__, op.name, *place) for place in places)
    assert set(seen.values()) == {1}
    assert len(seen) == sum(isinstance(op, Collective | Exchange) for walk in walks for op in walk.ops)


def test_nodes_and_ops_are_of_the_same_calls() -> None:
    step = piped()
    for cls in range(step.pricing.folding.num_rank_classes):
        ops, nodes = Walk(step=step, cls=cls), Walk(step=step, cls=cls, by_call=True)
        assert nodes.num_ops < ops.num_ops == len(ops.ops) == len(ops.keys)
        counts = [1 if block is None else len(block) for block in nodes.blocks]
        first = np.cumsum([0, *counts[:-1]])
        assert sum(counts) == ops.num_ops
        assert [ops.keys[place] for place in first.tolist()] == nodes.keys
        np.testing.assert_allclose(nodes.ready_s, ops.ready_s[first], rtol=1e-12)
        np.testing.assert_allclose(nodes.end_s, np.maximum.reduceat(ops.end_s, first), rtol=1e-12)
