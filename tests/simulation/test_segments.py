"""Calls as nodes: which may stand for their ops, and what is found where other lanes look into them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.collectives import load_library
from simfrontier.cost import Pricing, price
from simfrontier.machine import load_machine
from simfrontier.schedule.expansion import expand
from simfrontier.schedule.ir import Compute, Role, Schedule
from simfrontier.schedule.kinds.measured import CALL
from simfrontier.schedule.segments import SegmentedProgram, segmented
from simfrontier.simulation import simulate
from simfrontier.simulation.context import Classes
from simfrontier.simulation.engine import Engine
from simfrontier.simulation.role_view import view_of
from tests.simulation.kernels import NAMES, kernel, of
from tests.simulation.pipelines import Pipeline
from tests.some import some


def kinds(schedule: Schedule) -> list[str]:
    return [op.name for op in segmented(schedule, schedule.roles[0]).program.ops]


def test_a_call_on_one_lane_is_a_node() -> None:
    made = of((kernel("1", writes="a"), kernel("2", reads="a")), (kernel("3"),))
    program = segmented(made, made.roles[0])
    assert [op.kind for op in program.program.ops] == [CALL.name, "add"]  # a call of one op is that op
    assert program.blocks == [made.roles[0].calls[0].ops, None]
    assert program.num_ops == expand(made, made.roles[0]).num_ops == 3


def test_a_call_with_an_op_on_another_lane_is_not() -> None:
    assert kinds(of((kernel("1", writes="a"), kernel("2", "side", reads="a")))) == ["1", "2"]


def test_a_call_with_an_open_lane_takes_apart_itself_alone() -> None:
    """Both have a lane `beside` whose op lies between their first and last; the second also has one that does not."""
    closed = (kernel("1", writes="a"), kernel("2", "beside", reads="a", writes="b"), kernel("3", reads="b"))
    opened = (*closed, kernel("4", "open", reads="c"))
    assert kinds(of(closed, opened, closed)) == [CALL.name, "1", "2", "3", "4", CALL.name]
    crossing = (kernel("5", "beside", reads="d"),)  # where the lane is open in a call, no other has ops on it unseen
    assert CALL.name not in kinds(of(closed, crossing, closed))


def test_a_call_with_work_of_the_host_is_not() -> None:
    """Though it lies between the first and the last op."""
    ops = (kernel("1", writes="a"), kernel("2", "host", reads="a", writes="b"), kernel("3", reads="b"))
    assert kinds(of(ops)) == ["1", "2", "3"]


def test_another_lane_may_wait_for_the_last_op_alone() -> None:
    """The same call twice: one is waited for in its middle and taken apart, where the other stays whole."""
    last = (kernel("1", writes="a"), kernel("2", writes="b"))
    assert kinds(of(last, (kernel("3", "side", reads="b"),))) == [CALL.name, "3"]
    assert kinds(of(last, (kernel("3", "side", reads="a"),))) == ["1", "2", "3"]
    assert kinds(of(last, (kernel("3", "side", reads="a"),), last)) == ["1", "2", "3", CALL.name]
    assert kinds(of(last, last, (kernel("3", "side", reads="a"),))) == [CALL.name, "1", "2", "3"]


def test_only_the_first_op_may_wait_for_another_lane() -> None:
    side = (kernel("0", "side", writes="a"),)
    assert kinds(of(side, (kernel("1", reads="a"), kernel("2", reads="ab")))) == ["0", CALL.name]
    assert kinds(of(side, (kernel("1", reads="b"), kernel("2", reads="a")))) == ["0", "1", "2"]
    # what the lane has waited for once it need not wait for again
    assert kinds(of(side, (kernel("1", reads="a"),), (kernel("2", reads="b"), kernel("3", reads="a")))) == [
        "0",
        "1",
        CALL.name,
    ]


def test_a_call_is_cut_where_an_op_in_its_middle_waits_or_is_waited_for() -> None:
    before, after = (kernel("0", "side", writes="c"),), (kernel("9", "side", reads="b"),)
    call = (kernel("1", writes="a"), kernel("2", reads="a", writes="b"), kernel("3", reads="c"), kernel("4", reads="a"))
    made = of(before, call)
    cut = segmented(made, made.roles[0])
    assert cut.blocks == [None, call[:2], call[2:]]  # before the third op, which waits for the side
    assert [each[1:] for each in cut.segments if each is not None] == [(0, 2), (2, 4)]
    assert cut.segment(1).block == cut.segment(2).block and cut.segment(1) != cut.segment(2)
    made = of(call, after)
    assert segmented(made, made.roles[0]).blocks == [call[:2], call[2:], None]  # behind the second, which writes b
    made = of(before, (*call, kernel("5"), kernel("6", writes="b"), kernel("7")), after)
    assert kinds(made) == ["0", CALL.name, CALL.name, "7", "9"]  # cut twice; what is one op is that op


def test_a_call_whose_parts_would_not_be_closed_is_taken_apart() -> None:
    """The second op lies on another lane, and what waits for it is behind the cut."""
    closed = kernel("1", writes="a"), kernel("2", "beside", reads="a", writes="b"), kernel("3", reads="c")
    call = (*closed, kernel("4", reads="b"))
    assert kinds(of(call)) == [CALL.name]
    assert kinds(of((kernel("0", "side", writes="c"),), call)) == ["0", "1", "2", "3", "4"]


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Calls of one to six kernels on two lanes, mostly on `compute`, with any operands."""
    some = st.text(alphabet=NAMES, max_size=2).map(lambda text: "".join(sorted(set(text))))

    def op(number: int) -> Compute:
        lane = draw(st.sampled_from(("compute", "compute", "compute", "side")))
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


def test_equal_calls_follow_at_once_where_no_other_lane_comes_between() -> None:
    layer, other = (tuple(kernel(name, adds=tensor) for name in "12") for tensor in "ab")
    side = (kernel("3", "side", reads="a"),)
    assert followers(of(layer, layer, layer)) == [1, 2, -1]
    assert followers(of(layer, layer, other)) == [1, -1, -1]
    assert followers(of(layer, side, layer)) == [-1, -1, -1]  # the side waits for the first, the second for the side
    assert followers(of(layer, layer, side)) == [1, -1, -1]  # waits for the second
    assert followers(of(side, layer, layer)) == [-1, 2, -1]  # only the first waits for the side
    assert followers(of(layer, layer, (kernel("3", "side", reads="b"),))) == [1, -1, -1]


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


def test_a_call_is_whole_again_behind_what_disturbed_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight equal kernels, and one of another lane that begins with the second: it shares the memory with two or three
    of them, and what is left runs as a whole."""
    pieces = []
    run_whole = Engine._run_whole

    def spied(self: Engine, role: int, node: int, classes: Classes, piece: int = 0) -> None:
        pieces.append(piece)
        run_whole(self, role, node, classes, piece)

    monkeypatch.setattr(Engine, "_run_whole", spied)
    call = tuple(kernel(str(number), reads="a", writes="a") for number in range(8))
    machine, library = load_machine("toy-pair"), load_library("rccl")
    alone = of(call)
    (result,) = simulate([segmented(alone, alone.roles[0])], price(alone, machine, library))
    late = replace(machine, host=replace(machine.host, hook_s=result.timeline.step_s / 8))
    made = of(call, (replace(kernel("8", "host"), kind="hook"),), (kernel("9", "side", reads="b"),))
    pieces.clear()
    compare(made, price(made, late, library))
    assert pieces[0] == 0 and 2 <= pieces[-1] < 8


def nodes(pipeline: Pipeline) -> Iterator[list[str]]:
    made = pipeline.schedule()
    for role in made.roles:
        yield [op.kind for op in segmented(made, role).program.ops]


def test_calls_of_a_pipeline_are_whole_but_for_what_meets_other_stages() -> None:
    for kinds_of in some(nodes(Pipeline(stages=2, micros=3, tensor=2))):
        assert kinds_of.count(CALL.name) == 3 * 2 * 2  # micro-batches, layers, ways
        assert "matmul" not in kinds_of and "exchange" in kinds_of and "all_reduce" in kinds_of


def test_exchanges_on_lanes_of_their_own_leave_calls_whole() -> None:
    """They wait for a call's last op, and its first op waits for them."""
    for kinds_of in some(nodes(Pipeline(stages=2, micros=3, tensor=2, apart=True))):
        assert kinds_of.count(CALL.name) == 3 * 2 * 2


def test_a_communicator_of_two_lanes_keeps_its_calls_apart() -> None:
    made = Pipeline(stages=2, micros=2, tensor=2, data=2, reduce_lane="reduce").schedule()
    calls = [
        replace(
            call, ops=tuple(replace(op, comm="tensor") if getattr(op, "comm", "") == "data" else op for op in call.ops)
        )
        for call in made.roles[0].calls
    ]
    role = Role("s0", tuple(calls), made.roles[0].at)
    assert CALL.name not in [op.kind for op in segmented(made, role).program.ops]
