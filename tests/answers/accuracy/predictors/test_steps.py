"""Steps by class of kernels: what a job's scenario moves and multiplies, by hand."""

from __future__ import annotations

import pytest

from simfrontier.answers.accuracy import Prediction
from simfrontier.answers.accuracy.predictors import predict_row, row_fitted
from simfrontier.answers.accuracy.predictors.steps import class_of
from simfrontier.inputs.measured import ClassRow, load_table

H, LAYERS, VOCABULARY, TOKENS = 7168, 32, 50_304, 8 * 512
MATRICES = LAYERS * 12 * H * H  # elements of the linear modules of the layers
HEAD = VOCABULARY * H
NIC = 4 * 25e9 * 0.277  # bytes/s a node, by rings through the host's memory


def predicted(step: str) -> dict[str, float]:
    out = {}
    for row in load_table("kernel_classes").rows:
        assert isinstance(row, ClassRow)
        if row.step == step:
            made = predict_row(row)
            assert isinstance(made, Prediction)
            out[row.kernels] = made.value
    return out


def test_classes_of_axonn_s_step_on_frontier_are_those_of_its_calls_by_hand() -> None:
    """Over z, 16 GCDs of two nodes: FP32 weights of layers three times, of the head twice; BF16 gradients once. Over
    data, one GCD of every second node and eight groups a node: FP32 gradients, twice in and out of each GCD, by trees
    at 0.672 of a ring's rate, which is no more than half of their time. Products: four times the forward's, of the head
    three times."""
    seconds = predicted("frontier-axonn-20b")
    assert seconds["all_gather"] == pytest.approx((3 * MATRICES + 2 * HEAD) * 4 * 15 / 16 / NIC, rel=0.03)
    assert seconds["reduce_scatter"] == pytest.approx((MATRICES + HEAD) * 2 * 15 / 16 / NIC, rel=0.04)
    by_bytes = 2 * (MATRICES + HEAD) / 16 * 4 / (NIC / 8 * 0.672)
    assert by_bytes < seconds["all_reduce"] < 2.2 * by_bytes
    flops = 2.0 * TOKENS * (4 * MATRICES + 3 * HEAD)
    assert 90e12 < flops / seconds["compute"] < 110e12
    assert sum(each for kernels, each in seconds.items() if kernels != "step") == pytest.approx(
        seconds["step"], rel=1e-9
    )


def test_a_number_read_off_a_row_makes_it_a_fitted_one() -> None:
    fitted = [row for row in load_table("kernel_classes").rows if row_fitted(row)]
    assert {(row.machine, row.kernels) for row in fitted if isinstance(row, ClassRow)} == {
        ("frontier", "all_gather"),
        ("frontier", "compute"),
        ("frontier", "reduce_scatter"),
    }


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("matmul", "compute"), ("attention", "compute"), ("gelu", "other"), ("adam", "other"), ("decode", "other")],
)
def test_products_and_attention_are_compute(kind: str, expected: str) -> None:
    assert class_of(kind) == expected and class_of("all_reduce") == "all_reduce"
