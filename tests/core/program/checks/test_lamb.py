"""Findings of the checker for schedules that step weights by LAMB."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from simfrontier.core.program import Ref, Schedule, check, digest, from_json, to_json
from tests.core.plan.test_precision import FAMILY_NAMES, QUANTISED, built
from tests.core.program.mutations import dropped, mutated, says, where

LAYER = {"label": "step.layer", "layer": 1}


def lamb(family: str = "zero3") -> Schedule:
    return built(family, "fp16", optimizer="lamb", model="tiny", grad_accum=2)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_family_is_clean_and_read_as_it_was_written(family: str) -> None:
    for options in ({}, QUANTISED.get(family, {})):
        made = built(family, "fp16", optimizer="lamb", model="tiny", **options)
        assert str(check(made)) == "no findings"
        again = from_json(to_json(made), "a file")
        assert digest(again) == digest(made)
        assert again.tensors == made.tensors


def test_what_is_not_done_is_named() -> None:
    says(
        mutated(lamb(), dropped(where("lamb", **LAYER))),
        "sums: end of step: dense.weight",
        "expected one lamb per step",
    )
    without = mutated(lamb(), dropped(where("lamb_update", **LAYER)))
    says(without, "references", "lamb", "dense.weight.update of layer 1 written by an op before", "no op writes it")
    unsummed = mutated(lamb(), dropped(where("all_reduce", "scalar", **LAYER)))
    says(unsummed, "references", "dense.weight.norms.total of layer 1 written by an op before")


def test_what_is_done_twice_is_named() -> None:
    def twice(kind: str) -> Schedule:
        matches = where(kind, **LAYER)
        return mutated(lamb(), lambda call, op: [op, op] if matches(call, op) else [op])

    says(twice("lamb"), "sums: end of step: dense.weight", "expected one lamb per step; found 2 of them")
    says(twice("lamb_update"), "facts", "lamb_update", "once in its block")


def scaled_by(change: Callable[[Ref], Ref]) -> Schedule:
    """LAMB's second op with other operands."""
    is_scale = where("lamb")
    return mutated(
        lamb(),
        lambda call, op: [replace(op, reads=tuple(map(change, op.reads)))] if is_scale(call, op) else [op],  # type: ignore[arg-type]
    )


def test_the_norms_of_another_weight_are_named() -> None:
    swap = {"dense.weight.norms.total": "qkv.weight.norms.total"}
    other = scaled_by(lambda ref: ref._replace(name=swap.get(ref.name, ref.name)))
    says(other, "facts", "lamb", "an update, master and norms of dense.weight read once", "master, update")


def test_a_norm_that_left_out_a_step_s_gradient_is_named() -> None:
    without = mutated(lamb(), dropped(where("norm2", label="norm.layer", layer=1)))
    says(without, "sums: ", "lamb_update", "a norm that counts dense.weight of layer 1 once", "found not at all")


def test_the_optimizer_that_is_said_is_the_one_that_steps() -> None:
    made = lamb()
    other = replace(made, meta={**made.meta, "optimizer": "adam"})
    says(other, "facts: meta optimizer", "expected lamb, as its steps are; found 'adam'")
    silent = replace(made, meta={key: value for key, value in made.meta.items() if key != "optimizer"})
    says(silent, "facts: meta optimizer", "found nothing said")
    by_adam = built("zero3", "fp16", model="tiny")
    says(replace(by_adam, meta={**by_adam.meta, "optimizer": "lamb"}), "facts: meta optimizer", "expected adam")
