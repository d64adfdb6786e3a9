"""Calls that run as one node give the times of running op by op, with contention from other lanes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.collectives import load_library
from simfrontier.core.cost import Pricing, price
from simfrontier.core.engine import simulate
from simfrontier.core.engine.timeline import view_of
from simfrontier.core.machine import load_machine
from simfrontier.core.program.ir import HOST, Compute, Schedule
from simfrontier.core.program.segments import SegmentedProgram, segmented
from tests.core.engine.kernels import NAMES, kernel, of


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Calls of one to six kernels on two lanes, mostly on `compute`, and waits of the host, with any operands."""
    some = st.text(alphabet=NAMES, max_size=2).map(lambda text: "".join(sorted(set(text))))

    def op(number: int) -> Compute:
        lane = draw(st.sampled_from(("compute", "compute", "compute", "compute", "side", HOST)))
        if lane == HOST:
            return replace(kernel(str(number), lane, draw(some)), kind="hook")
        return kernel(str(number), lane, draw(some), draw(some), draw(some))

    blocks = [tuple(op(10 * i + j) for j in range(draw(st.integers(1, 6)))) for i in range(draw(st.integers(1, 3)))]
    return of(*draw(st.lists(st.sampled_from(blocks), min_size=1, max_size=6)))


@settings(deadline=None)
@given(made=schedules())
def test_nodes_give_the_times_of_ops(made: Schedule) -> None:
    """Whatever waits for whatever: as many seconds as one rank that runs op by op, with contention for memory."""
    compare(made, price(made, load_machine("toy-pair"), load_library("rccl")))


def compare(schedule: Schedule, pricing: Pricing) -> None:
    """Every op of the one role at the same time, in nodes and op by op."""
    (role,) = schedule.roles
    by_calls, by_ops = segmented(schedule, role), SegmentedProgram.of_ops(schedule, role)
    (result,), (expected,) = simulate([by_calls], pricing), simulate([by_ops], pricing)
    times, wanted = view_of(result).timeline, expected.timeline
    for mine, theirs in ((times.ready, wanted.ready), (times.start, wanted.start), (times.end, wanted.end)):
        assert mine == pytest.approx(theirs, rel=1e-9, abs=1e-15)


def followers(schedule: Schedule) -> list[int]:
    return segmented(schedule, schedule.roles[0]).followers


@pytest.mark.parametrize("begin", [0.0, 0.25, 1.0, 1.25, 1.5, 2.0, 2.75, 3.0])
def test_calls_in_one_go_make_way_for_a_kernel_of_another_lane(begin: float) -> None:
    """It begins when three equal calls are `begin` lengths of one along: within one, where one ends, or after all."""
    layer = (kernel("1", writes="a"), kernel("2", reads="a"))
    machine, library = load_machine("toy-pair"), load_library("rccl")
    alone = of(layer)
    (call,) = simulate([segmented(alone, alone.roles[0])], price(alone, machine, library))
    made = of(layer, layer, layer, (replace(kernel("0", "host"), kind="hook"),), (kernel("3", "side", reads="d"),))
    assert followers(made)[:3] == [1, 2, -1]
    late = replace(machine, host=replace(machine.host, hook_s=begin * call.timeline.step_s))
    compare(made, price(made, late, library))
