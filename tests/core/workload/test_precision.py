"""Precisions: the type of every value of a model, and what does not depend on it."""

import pytest

from simfrontier.core.workload import PRECISIONS, Workload, WorkOp, find_model, workload_of
from tests.some import some

MODELS = ("tiny", "tiny-mlp")


def work_in(model: str, precision: str) -> Workload:
    return workload_of(find_model(model), 2, checkpointing="full", precision=precision)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("model", MODELS)
def test_every_value_is_of_the_models_type_but_tokens_wide_logits_and_sums(model: str, precision: str) -> None:
    wide = PRECISIONS[precision].wide
    others = {"tokens": "int64", "logits.fp32": "fp32"}
    for value in some(work_in(model, precision).values.values()):
        assert value.dtype == others.get(value.name, wide if value.where_cut or value.loss_methods else precision), (
            value.name
        )


@pytest.mark.parametrize("model", MODELS)
def test_only_16_bit_logits_are_widened_for_the_loss(model: str) -> None:
    def head(precision: str) -> tuple[list[str], WorkOp]:
        work = work_in(model, precision)
        (loss,) = [op for op in work.head.backward if op.kind == "loss" and "fused-two" in op.loss_methods]
        return [op.name for op in work.head.forward if op.kind == "cast"], loss

    terms = (("loss.top", 0), ("loss.terms", 0))  # where classes are cut
    for precision in ("fp16", "bf16"):
        casts, loss = head(precision)
        assert (casts, loss.reads) == (["to_fp32"], (("logits.fp32", 0), *terms))
    for precision in ("fp32", "fp64"):
        casts, loss = head(precision)
        assert (casts, loss.reads) == ([], (("logits", 0), *terms))
