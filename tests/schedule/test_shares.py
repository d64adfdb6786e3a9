"""An all-reduce works in place: the reduced gradient lies in the accumulator's memory and is not counted again."""

from dataclasses import replace

from simfrontier.schedule.checker import check
from simfrontier.schedule.lifetime import peak_bytes
from tests.simulation.steps import FOUR_LAYERS, frontier_mesh, schedule


def test_ddp_holds_16_bytes_per_parameter() -> None:
    """Weights, gradients and optimizer 2 + 2 + 12; what the step adds is activations, never a second gradient."""
    built = schedule("ddp", frontier_mesh(2))
    peak = peak_bytes(built)
    states = sum(holder.num_bytes for holder in peak.holders if holder.role != "activation")
    assert states == 16 * FOUR_LAYERS.num_parameters + sum(h.num_bytes for h in peak.holders if h.role == "scalar")


def test_check_names_a_home_of_another_size() -> None:
    built = schedule("ddp", frontier_mesh(2))
    name = "qkv.weight.grad.reduced"
    assert built.tensors[name].shares == "qkv.weight.grad"
    for home, message in (
        ("dense.weight.grad", "dense.weight.grad, of"),
        ("nowhere", "nowhere, which is not declared"),
    ):
        wrong = replace(built.tensors[name], shares=home)
        result = check(replace(built, tensors={**built.tensors, name: wrong})).findings
        assert any(message in str(finding) for finding in result), result
