"""The states of layers, which plans share, are those that each would have by itself."""

from __future__ import annotations

import random

from simfrontier.plan import tensors_of
from simfrontier.tuning.layer_states import LayerStates
from simfrontier.tuning.lossy import LossyPolicy
from simfrontier.tuning.pins import pins_of
from simfrontier.tuning.space import Space
from tests.tuning.small import scenario


def test_layers_keep_what_the_tensors_of_each_plan_say() -> None:
    space = Space(scenario(16, 16), 16, 16, pins_of({}), LossyPolicy(max_error=0.7))  # any family, codec and policy
    cases = [candidate.case for candidate in random.Random(0).sample(list(space.candidates()), 40)]
    states = LayerStates()
    for case in cases:
        every = tensors_of(case.workload, case.plan, case.mesh, case.engine).by_name.values()
        kept = sum(t.held_bytes(case.mesh) for t in every if t.persistent and t.per_layer)
        assert states.num_bytes(case) == kept * (case.shape.num_layers // case.stages), case.options
    assert 0 < len(states.known) < len(cases)
