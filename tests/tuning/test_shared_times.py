"""Times, states and steps that plans share are those that each would have by itself."""

from __future__ import annotations

import random
from functools import lru_cache

import pytest

from simfrontier.cost import Prices
from simfrontier.errors import InputError
from simfrontier.plan import resized, tensors_of
from simfrontier.scenario import Case, Scenario
from simfrontier.schedule import Op
from simfrontier.study import ScheduleCache
from simfrontier.tuning.layer_states import LayerStates
from simfrontier.tuning.lossy import LossyPolicy
from simfrontier.tuning.op_times import OpTimes
from simfrontier.tuning.pins import pins_of
from simfrontier.tuning.space import Space
from tests.tuning.small import scenario


@lru_cache(maxsize=2)
def some_cases(machine: str) -> tuple[Scenario, list[Case]]:
    """Cases of any family, codec and policy of compression on 16 devices."""
    made = scenario(16, 16, machine=machine)
    candidates = list(Space(made, 16, 16, pins_of({}), LossyPolicy(max_error=0.7)).candidates())
    return made, [candidate.case for candidate in random.Random(0).sample(candidates, 40)]


@pytest.mark.parametrize("machine", ["frontier", "perlmutter"])
def test_ops_share_the_times_that_each_would_have(machine: str) -> None:
    made, cases = some_cases(machine)
    prices = Prices(made.machine, made.library, 16)
    times, cache, asked = OpTimes(prices), ScheduleCache(), 0
    for case in (case for case in cases if case.stages == 1):
        schedule = cache.of_case(made, case).schedule
        ops, tensors = resized(schedule.ops, schedule.tensors, 1, 1)
        local = {name: tensor.local_bytes(schedule.mesh) for name, tensor in tensors.items()}

        def is_inside(op: Op) -> bool:
            return op.lane == "compute"

        forms = [times.form(op, tensors, is_inside(op)) for op in ops]
        try:
            took, floor = times.of(ops, forms, schedule, local)
        except InputError:
            continue
        own = Prices(made.machine, made.library, 16)
        assert took == [own.seconds(op, schedule) for op in ops], case.options
        assert floor == [own.floor_s(op, schedule) if is_inside(op) else 0.0 for op in ops], case.options  # type: ignore[arg-type]
        asked += len(ops)
    assert asked > 2 * len(times.known) > 0


def test_layers_keep_what_the_tensors_of_each_plan_say() -> None:
    _, cases = some_cases("frontier")
    states = LayerStates()
    for case in cases:
        every = tensors_of(case.workload, case.plan, case.mesh, case.engine).by_name.values()
        kept = sum(t.held_bytes(case.mesh) for t in every if t.persistent and t.per_layer)
        assert states.num_bytes(case) == kept * (case.shape.num_layers // case.stages), case.options
    assert 0 < len(states.known) < len(cases)
