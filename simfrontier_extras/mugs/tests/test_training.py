"""Mugs trained for real on ranks in one process: weights, teacher, queues, memories and centre are those of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.schedule import Call, Compute, Op, Ref, Schedule, check, expand
from simfrontier_extras.mugs.real.settings import MugsSettings
from simfrontier_extras.mugs.tests.schedules import BATCH, EQUAL, FROZEN, SMALL_QUEUE, STEPS, TINY, schedule, training
from simfrontier_real import messages
from simfrontier_real.arrays import numpy_backend, torch_backend
from simfrontier_real.data import batch
from simfrontier_real.executor import inline, run_together
from simfrontier_real.initial_states import initial_weights
from simfrontier_real.layout import layouts_of
from simfrontier_real.loopback import LoopbackWorld
from simfrontier_real.rank_context import rank_context_of
from simfrontier_real.replay import ReplayRunner, StandInKernels
from simfrontier_real.train import TrainingRank, train_in_one_process
from simfrontier_real.training_result import TrainingResult
from simfrontier_real.verdict import scheduled_bytes, why_inexact
from tests.real.lowerings import MIXED, lowered_of
from tests.real.schedules import distance, loss_distance, unsharded
from tests.schedule.mutations import changed, mutated, where


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


def test_torch_trains_like_numpy() -> None:
    agrees(schedule(sizes=(1, 1, 1)), backend=torch_backend())


def test_lowered_collectives_train_mugs_too() -> None:
    made = schedule(sizes=(2, 1, 2))
    agrees(made, lowered=lowered_of(made, MIXED))


def test_everything_that_lasts_moves_but_the_parts_of_a_memory_that_nobody_searches() -> None:
    """In six steps 6 · 16 keys enter queues of 32 entries and 6 · 8 rows the teacher's memory of 32: none of the first
    is left. Of the 48 images those whose flag is set enter the student's memory."""
    made = schedule()
    ours, start = agrees(made).weights, initial_weights(made, 0)
    same = {name for (name, _), values in start.items() if np.array_equal(ours[name, 0], values)}
    assert same == {"student/memory.others", "teacher/memory.others"}
    for name in ("instance.queue", "group.queue"):
        assert not (ours[name, 0] == start[name, 0]).all(axis=0).any()
    assert not (ours["teacher/memory", 0] == start["teacher/memory", 0]).all(axis=1).any()
    set_flags = sum(int(batch(made, 0, step, 0).by_name["flags"].sum()) for step in range(STEPS))
    kept = int((ours["student/memory", 0] == start["student/memory", 0]).all(axis=1).sum())
    assert 0 < set_flags < STEPS * BATCH and kept == 32 - set_flags > 0


def test_what_a_run_starts_from() -> None:
    """The teacher is the student, queues and memories hold rows of length 1, the centre is 0."""
    made = schedule(FROZEN)
    start = initial_weights(made, 3)
    for name, layer in start:
        source = name.removeprefix("teacher/"), layer
        if name.startswith("teacher/") and source in start:
            assert np.array_equal(start[name, layer], start[source]), name
    assert ("teacher/last.norm", 0) in start and ("teacher/instance.predict.1.weight", 0) not in start
    assert np.allclose(np.linalg.norm(start["group.queue", 0], axis=0), 1)
    assert np.allclose(np.linalg.norm(start["student/memory.others", 0], axis=-1), 1)
    assert not start["cluster.centre", 0].any()
    assert abs(start["last.norm", 0].mean() - 1) < 0.2


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


@pytest.mark.parametrize("setting", ["contrast_temperature", "student_temperature", "teacher_temperature"])
def test_every_temperature_matters_to_both_alike(setting: str) -> None:
    how = replace(training(steps=2), of_model=MugsSettings(**{setting: 0.3}))
    ours, theirs = train_in_one_process(schedule(), how), unsharded(schedule(), how)
    assert distance(ours.weights, theirs.weights) <= EQUAL["fp64"]
    assert loss_distance(ours.losses, unsharded(schedule(), training(steps=2)).losses) > 1e-3


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


@pytest.mark.parametrize("compute", ["real", "none"])
def test_training_and_replay_move_the_bytes_that_the_schedule_says(compute: Any) -> None:
    """Of four ranks, each: two queues of two gathers of 8 keys of 8 numbers, 8 rows of 16 numbers twice, 8 flags, the
    centre of 12, the norm's square and overflow are not moved; the rest are gradients. Numbers have 8 bytes."""
    made = schedule(sizes=(2, 1, 2))
    program, world = expand(made, made.roles[0]), LoopbackWorld(made.mesh)
    ranks = [TrainingRank(made, program, numpy_backend(), rank, world.transport(rank), training()) for rank in range(4)]
    for rank in ranks:
        rank.load(0)
    run_together([inline(rank.step) for rank in ranks])
    expected = scheduled_bytes(made, program)
    gathered = 8 * (2 * 2 * 8 * 8 + 2 * 8 * 16 + 12) + 8
    gradients = 8 * TINY.num_parameters
    assert expected == gathered + gradients
    assert [sum(rank.step.message_bytes.values()) for rank in ranks] == [expected] * 4
    world = LoopbackWorld(made.mesh)
    for rank in ranks:
        number = rank.context.rank
        site = rank_context_of(made, program, layouts_of(made, program), numpy_backend(), number)
        rank.step.op_runner, rank.step.transport = ReplayRunner(site, StandInKernels(compute)), world.transport(number)
        rank.step.message_bytes.clear()
    run_together([inline(rank.step) for rank in ranks])
    assert [sum(rank.step.message_bytes.values()) for rank in ranks] == [expected] * 4
    assert ranks[0].step.op_runner.context.buffers[Ref("instance.queue")].shape == (8 * 32,)


# ── faults that must show ──


def differs(made: Schedule) -> float:
    """How far weights and states are from those of one process."""
    how = training()
    return distance(train_in_one_process(made, how).weights, unsharded(schedule(), how).weights)


def parted(name: str) -> str:
    return rf"^{re.escape(name)} of layer 0: rank \d holds other values than its copies$"


def test_a_gather_that_leaves_out_a_ranks_keys_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last rank's rows are taken to be the first one's, on all ranks alike."""
    side_by_side: Callable[..., Any] = messages.side_by_side

    def without_last(xp: Any, pieces: Any, *layout: Any) -> Any:
        return side_by_side(xp, xp.stack([*pieces[:-1], pieces[0]]), *layout)

    assert differs(schedule()) <= EQUAL["fp64"]
    monkeypatch.setattr(messages, "side_by_side", without_last)
    assert differs(schedule()) > 1e-3


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


def test_a_centre_that_is_not_reduced_shows() -> None:
    made = schedule()

    def copied(_: Call, op: Op) -> list[Op]:
        if op.kind != "all_reduce" or op.reads[0].name != "cluster.sum.partial":
            return [op]
        return [Compute(kind="slice", name=op.name, reads=op.reads, writes=op.writes, lane=op.lane)]

    wrong = mutated(made, copied)
    assert "cluster.sum" in str(check(wrong))
    with pytest.raises(SimfrontierError, match=parted("cluster.centre")):
        train_in_one_process(wrong, training())


def test_flags_that_are_ignored_show() -> None:
    made = schedule()
    matches = where("enqueue", name="student/enqueue")
    (op,) = [op for call, op in made.roles[0].instances() if matches(call, op)]
    kept = tuple(ref for ref in op.reads if not ref.name.startswith("flags"))
    assert len(kept) == len(op.reads) - 1
    assert differs(mutated(made, changed(matches, reads=kept))) > 1e-3
