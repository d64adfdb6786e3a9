"""Mugs trained for real on ranks in one process: weights, teacher, queues, memories and centre are those of one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.program import Schedule, check, expand
from simfrontier_extras.mugs.tests.schedules import EQUAL, FROZEN, SMALL_QUEUE, TINY, schedule, training
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.train import train_in_one_process
from simfrontier_real.train.training_settings import TrainingResult
from simfrontier_real.verify.verdict import why_inexact
from tests.core.program.mutations import changed, mutated, where
from tests.real.lowerings import MIXED, lowered_of
from tests.real.schedules import distance, loss_distance, unsharded


def agrees(made: Schedule, precision: str = "fp64", clip: float = 3.0, **how: Any) -> TrainingResult:
    """The schedule is sound, need not excuse itself, and trains to the weights, states and losses of one process."""
    assert str(check(made)) == "no findings"
    assert why_inexact(made, expand(made, made.roles[0])) == ""
    settings = training(precision, clip=clip)
    ours, theirs = train_in_one_process(made, settings, **how), unsharded(made, settings, precision)
    assert distance(ours.weights, theirs.weights) <= EQUAL[precision]
    assert loss_distance(ours.losses, theirs.losses) <= EQUAL[precision]
    return ours


@pytest.mark.parametrize("overlap_statistics", [False, True], ids=["blocking", "overlapped"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (1, 1, 2), (2, 1, 2), (2, 2, 2)], ids=str)
def test_every_number_of_ranks_trains_like_one_process(sizes: tuple[int, int, int], overlap_statistics: bool) -> None:
    agrees(schedule(sizes=sizes, overlap_statistics=overlap_statistics))


OTHERS: dict[str, dict[str, Any]] = {
    "no overlap": {"overlap": False},
    "two micro-batches": {"grad_accum": 2},
    "fused attention": {"attention": "fused"},
    "frozen norms": {"shape": FROZEN},
    "frozen norms on four": {"shape": FROZEN, "sizes": (2, 1, 2), "overlap_statistics": True},
    "other crops": {"shape": replace(TINY, name="other-crops", local_crops=1, neighbours=5, heads=4, num_layers=1)},
}


@pytest.mark.parametrize("which", OTHERS)
def test_other_steps_train_like_one_process(which: str) -> None:
    agrees(schedule(**OTHERS[which]))


@pytest.mark.parametrize("sizes", [(1, 1, 2), (2, 1, 2)], ids=str)
def test_float32_agrees_to_its_precision(sizes: tuple[int, int, int]) -> None:
    agrees(schedule(sizes=sizes, precision="fp32"), "fp32")


def test_lowered_collectives_train_mugs_too() -> None:
    made = schedule(sizes=(2, 1, 2))
    agrees(made, lowered=lowered_of(made, MIXED))


def test_the_teacher_follows_slowly() -> None:
    """After one step it is 0.996 of where it was and 0.004 of the student's new weight."""
    made = schedule()
    start, after = initial_weights(made, 0), train_in_one_process(made, training(steps=1)).weights
    for name in ("patch.weight", "relation/qkv.weight"):
        expected = 0.996 * start[name, 0] + 0.004 * after[name, 0]
        np.testing.assert_allclose(after[f"teacher/{name}", 0], expected, rtol=1e-14, atol=1e-16)
        assert not np.array_equal(after[name, 0], start[name, 0])


def test_each_gradient_is_clipped_by_its_own_norm() -> None:
    """A norm of 0.05 is exceeded by some gradients and not by others; clipped all together, weights differ."""
    made = schedule()
    ours = agrees(made, clip=0.05)
    together = replace(made, meta={**made.meta, "clip": "all"})
    assert distance(train_in_one_process(together, training(clip=0.05)).weights, ours.weights) > 1e-4
    assert distance(train_in_one_process(made, training(clip=1e9)).weights, ours.weights) > 1e-4


# ── what cannot be trained ──


def test_a_queue_must_hold_what_enters_in_a_step() -> None:
    """Eight images have 16 keys: queues of 16 entries are just enough, of 15 not; memories take a row per image."""
    agrees(schedule(replace(TINY, name="queue-16", queue=16)))
    made = schedule(SMALL_QUEUE)
    message = "^instance.queue: 16 rows enter in a step, but it has 15 entries; allowed: 16 or more$"
    for train in (train_in_one_process, unsharded):
        with pytest.raises(InputError, match=message):
            train(made, training())


def test_gradients_that_are_clipped_one_by_one_must_be_whole() -> None:
    message = (
        "its gradient is cut over gcd, but each is clipped by its own norm; allowed: plans that keep gradients whole"
    )
    with pytest.raises(InputError, match=message):
        train_in_one_process(schedule(plan="zero1"), training())


# ── bytes ──


# ── faults that must show ──


def differs(made: Schedule) -> float:
    """How far weights and states are from those of one process."""
    how = training()
    return distance(train_in_one_process(made, how).weights, unsharded(schedule(), how).weights)


def parted(name: str) -> str:
    return rf"^{re.escape(name)} of layer 0: rank \d holds other values than its copies$"


def test_a_gather_within_a_node_shows() -> None:
    """Of two nodes each has the keys of its own ranks only."""
    made = schedule(sizes=(2, 1, 2))
    wrong = mutated(made, changed(where("all_gather", touches="teacher/instance.key.1"), axes=("gcd",)))
    assert "teacher/instance.key.1" in str(check(wrong))
    with pytest.raises(SimfrontierError, match=parted("instance.queue")):
        train_in_one_process(wrong, training())


def test_a_teacher_that_follows_before_adam_shows() -> None:
    made = schedule()
    (role,) = made.roles
    follows = [call for call in role.calls if call.label.startswith("follow.")]
    others = [call for call in role.calls if not call.label.startswith("follow.")]
    at = next(number for number, call in enumerate(others) if call.label.startswith("step."))
    assert len(follows) > 1
    wrong = replace(made, roles=(replace(role, calls=(*others[:at], *follows, *others[at:])),))
    assert differs(wrong) > 1e-7


def test_flags_that_are_ignored_show() -> None:
    made = schedule()
    matches = where("enqueue", name="student/enqueue")
    (op,) = [op for call, op in made.roles[0].instances() if matches(call, op)]
    kept = tuple(ref for ref in op.reads if not ref.name.startswith("flags"))
    assert len(kept) == len(op.reads) - 1
    assert differs(mutated(made, changed(matches, reads=kept))) > 1e-3
