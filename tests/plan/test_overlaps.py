"""What AxoNN's overlaps do beyond lanes: when fetches begin, which product comes first, and who shares a group."""

from __future__ import annotations

import pytest

from simfrontier.schedule import Collective, Compute
from simfrontier.schedule.expansion import expand
from tests.plan.grids import axonn, other, schedule_of


@pytest.mark.parametrize("again", [False, True], ids=["kept", "gathered again"])
@pytest.mark.parametrize("residual", ["sequential", "parallel"])
def test_a_fetch_begins_when_the_work_has_come_to_the_module_before(again: bool, residual: str) -> None:
    """The lane of gathers waits at each module that fetches: for the op that wrote an activation last before it, so
    that it never is further ahead than one module."""
    schedule = schedule_of(axonn(2, 2, 2, gather_again=again), 8, shape=other(residual=residual, num_layers=3))
    program = expand(schedule, schedule.roles[0])
    compute, gather = program.lanes.index("compute"), program.lanes.index("gather")
    last, waited, fetches = 0, 0, 0
    for index, op in enumerate(program.ops):
        activations = any(schedule.tensors[ref.name].role == "activation" for ref in program.writes[index])
        if program.lane[index] == compute and isinstance(op, Compute) and activations:
            last = program.position[index] + 1
        if op.kind == "hook":
            waited = max(waited, dict(program.waits[index]).get(compute, 0))
        if op.name == "weight_gather":
            assert program.lane[index] == gather
            assert waited >= last
            fetches += 1
    assert fetches > 12


@pytest.mark.parametrize(
    ("x", "y", "ors", "weights_before_inputs"),
    [
        (1, 1, True, {"qkv", "dense", "h_to_4h", "4h_to_h", "head"}),
        (2, 1, True, {"qkv", "h_to_4h", "head"}),  # dI of the transposed layers is reduced over X
        (1, 2, True, {"dense", "4h_to_h"}),
        (2, 2, True, set()),
        (1, 1, False, set()),
    ],
)
def test_where_no_input_gradient_is_reduced_ors_makes_the_weight_s_first(
    x: int, y: int, ors: bool, weights_before_inputs: set[str]
) -> None:
    schedule = schedule_of(axonn(x, y, 2, ors=ors), 8, shape=other(num_layers=1))
    names = [op.name for _, op in schedule.roles[0].instances()]
    modules = [name.removesuffix(".wgrad") for name in names if name.endswith(".wgrad") and name != "embedding.wgrad"]
    assert len(modules) == 5
    first = {name for name in modules if names.index(f"{name}.wgrad") < names.index(f"{name}.dgrad")}
    assert first == weights_before_inputs


@pytest.mark.parametrize(("again", "num_groups"), [(False, 2), (True, 1)])
@pytest.mark.parametrize("z", [4, 8], ids=["some ranks", "all ranks"])
def test_gathers_have_a_group_of_their_own_where_they_are_kept(z: int, again: bool, num_groups: int) -> None:
    """The branch of the large runs has a second group over Z, the main branch one; none is the world's."""
    schedule = schedule_of(axonn(z=z, gather_again=again), 8)
    calls = [op for _, op in schedule.roles[0].instances() if isinstance(op, Collective) and op.axes == ("z",)]
    comms = {op.comm for op in calls if op.name in ("weight_gather", "gradient")}
    assert len(comms) == num_groups and "world" not in comms
