"""Phases of calls of a pipeline with a tied table, whose gradients two stages exchange at the end of the step."""

from simfrontier.schedule import phase_of
from tests.real.grids import megatron

OF_LABEL = {
    "embedding": "forward",
    "forward": "forward",
    "backward": "backward",
    "embedding.backward": "backward",
    "exchange": "exchange",
}


def test_a_call_is_of_the_pass_that_its_ops_are_of() -> None:
    schedule = megatron(1, 2, shape="tied", grad_accum=3).schedule
    heads = 0
    for role in schedule.roles:
        for call in role.calls:
            if call.label == "head":  # the product of the logits; then the loss and all gradients
                heads += 1
                assert phase_of(call, schedule) == ("forward" if heads % 2 else "backward")
            else:
                assert phase_of(call, schedule) == OF_LABEL.get(call.label, "end"), call.label
    assert heads == 2 * 3
    assert any(call.label == "tied" for role in schedule.roles for call in role.calls)
