"""What arrives is held against what was sent, on every kind of call; rounding and changes are told apart."""

from __future__ import annotations

import math

import pytest

from simfrontier.core.program import Collective, Exchange, Schedule
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.train.train import run_in_one_process
from simfrontier_real.train.training_settings import TrainingSettings
from simfrontier_real.verify.arrivals import Calls, call_errors
from simfrontier_real.verify.checks import MESSAGES
from tests.real.grids import megatron
from tests.real.mutation.cases import CASES, SAME
from tests.real.mutation.matrix import Bench
from tests.real.schedules import EXACT, QUANTISED, schedule
from tests.some import some

STEPS = 2
EXACTLY = ("zero3", "zero3 fp32", "axonn 2×2×1, 2 replicas", "megatron 2×1×2, fp32", "sequence parallel", "interleaved")


def _calls(made: Schedule) -> list[list[Calls]]:
    """By step and rank."""
    given, _ = run_in_one_process(made, TrainingSettings(steps=STEPS))
    return [[each.calls[step] for each in given] for step in range(STEPS)]


def _followed(made: Schedule, by_rank: list[Calls]) -> set[str]:
    """The kinds of calls that were noted."""
    ops = [(rank, programs_of(made).of(rank).ops[index]) for rank, calls in enumerate(by_rank) for index in calls]
    return {op.wire_kind if isinstance(op, Collective) else op.kind for _, op in ops}


MADE = {
    "zero1": lambda: schedule(EXACT["zero1"], (2, 1, 2), 2, precision="fp32"),
    "quantised topo": lambda: schedule(QUANTISED["quantised topo"], (2, 1, 2), 2, precision="fp32"),
    "odd order": lambda: schedule(EXACT["odd order"], (2, 1, 2), 1),
    "stages": lambda: megatron(2, 2, 1, precision="fp32").schedule,
}
KINDS = {
    "zero1": {"all_reduce", "all_gather"},
    "quantised topo": {"all_to_all", "reduce_scatter", "all_gather", "all_reduce"},
    "odd order": {"all_reduce", "all_gather", "reduce_scatter"},
    "stages": {"all_reduce", "exchange"},
}


@pytest.mark.parametrize("name", MADE)
def test_what_arrives_is_what_was_sent(name: str) -> None:
    made = MADE[name]()
    for by_rank in some(_calls(made)):
        assert _followed(made, by_rank) == KINDS[name]
        assert 0 < call_errors(made, programs_of(made), by_rank).error < 0.5


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("field", ["received", "sent"])
def test_every_call_of_every_rank_counts(name: str, field: str) -> None:
    """A ten-thousandth more or less, anywhere, is named with its op."""
    made = MADE[name]()
    programs = programs_of(made)
    _, sound = _calls(made)
    ranks = range(made.mesh.num_ranks)
    changed = 0
    for rank in (ranks[0], ranks[-1]):
        for index, messages in sound[rank].items():
            if messages[0].square == 0 and field == "sent":
                continue  # this end of an exchange sends nothing
            op = programs.of(rank).ops[index]
            if field == "received" and isinstance(op, Exchange) and messages[0].received == 0.0:
                continue  # to this end comes nothing
            kept = getattr(messages[0], field)
            setattr(messages[0], field, kept + 1e-4 * (math.sqrt(messages[0].square) or 1.0))
            error = call_errors(made, programs, sound)
            assert error.error > 1, (op.kind, op.name)
            assert f"{op.kind} {op.name} of layer " in error.where
            setattr(messages[0], field, kept)
            changed += 1
    assert changed > 1


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[pytest.mark.long] * (case in SAME and case not in EXACTLY)) for case in CASES]
)
def test_rounding_takes_less_than_a_third_of_what_it_may(case: str) -> None:
    result, _ = Bench(case, CASES[case](), steps=1, seed=3).result()
    (check,) = (each for each in result.checks if each.name == MESSAGES)
    assert check.seen <= 0.3 * check.limit, str(check)
