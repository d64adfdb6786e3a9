"""Sweeps that add points by themselves: searches, and samples until the goal is known well enough."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.sweep import Progress, SweepStudy, goal_answer, run_sweep
from simfrontier.sweep.answers import goal_values
from simfrontier.sweep.until import parse_until
from simfrontier.workers import Local
from tests.sweep.studies import ACCUM, HOOK, MICRO, study

HOST = {"key": HOOK, "between": [1e-6, 1e-2], "scale": "log"}
BATCH = {"key": MICRO, "among": [1, 2, 4]}
GOAL = {"column": "tokens_per_s", "plan": "ddp"}
ALONE = Local(jobs=1)


def searching(folder: Path, points: int = 16, **goal: Any) -> SweepStudy:
    return study(folder, HOST, BATCH, goal=GOAL | goal, search={"points": points, "estimates": 32}, plans=["ddp"])


def sampled(folder: Path, method: str, count: int = 8, **goal: Any) -> SweepStudy:
    sampling = {"method": method, "count": count}
    return study(folder, HOST, BATCH, goal=GOAL | goal, sampling=sampling, plans=["ddp"])


def test_a_search_finds_the_end_that_is_best(tmp_path: Path) -> None:
    """Most tokens per second come with the largest micro-batch: estimates know that at once."""
    made = run_sweep(searching(tmp_path), tmp_path / "out", ALONE)
    answer = goal_answer(made.study, tmp_path / "out", 16)
    assert answer is not None and answer.best_point is not None
    best = list(made.study.points())[answer.best_point].settings
    assert (made.counts.points, best[MICRO]) == (16, 4)
    assert answer.so_far[0] > 0.9 * answer.so_far[-1]  # the first point, which estimates proposed, is nearly the best
    assert list(answer.so_far) == sorted(answer.so_far)


def test_a_search_goes_on_to_the_same_points(tmp_path: Path) -> None:
    """Eight points, then sixteen: the second run simulates eight, and the data set is that of sixteen at once."""
    run_sweep(searching(tmp_path), tmp_path / "two", ALONE, until=parse_until("8"))
    second = run_sweep(searching(tmp_path), tmp_path / "two", ALONE, until=parse_until("16"))
    whole = run_sweep(searching(tmp_path), tmp_path / "one", ALONE, until=parse_until("16"))
    assert [point.settings for point in second.study.points()] == [point.settings for point in whole.study.points()]
    parts = [(tmp_path / name / "rows.parquet").read_bytes() for name in ("one", "two")]
    assert parts[0] == parts[1]


def test_a_longer_search_begins_with_the_shorter(tmp_path: Path) -> None:
    short = run_sweep(searching(tmp_path, 64), tmp_path / "short", ALONE, until=parse_until("12"))
    long = run_sweep(searching(tmp_path, 64), tmp_path / "long", ALONE, until=parse_until("24"))
    first, more = ([point.settings for point in each.study.points()] for each in (short, long))
    assert more[: len(first)] == first


def test_a_search_goes_on_for_a_time(tmp_path: Path) -> None:
    """Rounds that begin within no time at all: the first alone, whatever the study says of points."""
    made = run_sweep(searching(tmp_path, 4), tmp_path / "out", ALONE, until=parse_until("0.001s"))
    assert made.counts.points == 8


def test_a_search_for_little_finds_little(tmp_path: Path) -> None:
    made = run_sweep(searching(tmp_path, column="step_time_s", best="least"), tmp_path / "out", ALONE)
    values = goal_values(tmp_path / "out", made.study.file.goal, 16)  # type: ignore[arg-type]
    answer = goal_answer(made.study, tmp_path / "out", 16)
    assert answer is not None and answer.best == min(values)


def test_samples_double_until_the_mean_is_known(tmp_path: Path) -> None:
    made = run_sweep(sampled(tmp_path, "random"), tmp_path / "out", ALONE, until=parse_until("40%"))
    count = made.counts.points
    values = goal_values(tmp_path / "out", made.study.file.goal, count)  # type: ignore[arg-type]
    mean = sum(values) / count
    sd = math.sqrt(sum((value - mean) ** 2 for value in values) / (count - 1))
    assert 1.645 * sd / math.sqrt(count) / mean <= 0.4
    assert count in (8, 16, 32, 64, 128)


def test_samples_stop_before_more_points_than_wanted(tmp_path: Path) -> None:
    made = run_sweep(sampled(tmp_path, "sobol"), tmp_path / "out", ALONE, until=parse_until("20"))
    assert made.counts.points == 16


def test_samples_may_end_with_exactly_the_points_that_are_wanted(tmp_path: Path) -> None:
    made = run_sweep(sampled(tmp_path, "sobol", count=2), tmp_path / "out", ALONE, until=parse_until("4"))
    assert made.counts.points == 4


def test_indices_of_a_study(tmp_path: Path) -> None:
    """The micro-batch changes the step, the accumulation of one plan nothing of another's."""
    other = {"key": "plans.zero1.grad_accum", "among": [1, 2]}
    made = study(
        tmp_path,
        BATCH,
        other,
        goal={"column": "step_time_s", "plan": "ddp"},
        sampling={"method": "saltelli", "count": 16},
    )
    outcome = run_sweep(made, tmp_path / "out", ALONE)
    assert outcome.counts.points == 16 * 4
    answer = goal_answer(made, tmp_path / "out", outcome.counts.points)
    assert answer is not None and answer.indices is not None
    first, second = answer.indices.unknowns
    assert (first.key, second.key) == (MICRO, "plans.zero1.grad_accum")
    assert first.total == pytest.approx(1.0, abs=0.5)
    assert second.first == second.total == 0.0


def test_a_ratio_is_of_two_plans_of_one_size(tmp_path: Path) -> None:
    axis = {"key": ACCUM, "values": [1, 2]}
    made = study(tmp_path, axis, goal={"column": "step_time_s", "plan": "ddp", "against": "zero1"})
    run_sweep(made, tmp_path / "out", ALONE)
    alone = [
        goal_values(tmp_path / "out", made.file.goal.model_copy(update={"plan": plan, "against": None}), 2)  # type: ignore[union-attr]
        for plan in ("ddp", "zero1")
    ]
    ratios = goal_values(tmp_path / "out", made.file.goal, 2)  # type: ignore[arg-type]
    assert ratios == [one / other for one, other in zip(*alone, strict=True)]


def test_points_of_earlier_rounds_are_not_known_before(tmp_path: Path) -> None:
    """Rounds of 8 and 8: nothing was there before; then everything was, and so the bar says."""
    seen: list[Progress] = []
    first = run_sweep(searching(tmp_path), tmp_path / "out", ALONE, seen.append)
    assert first.known == 0 == max(at.known for at in seen)
    assert {at.total for at in seen} == {16} and seen[-1].done == 16
    assert run_sweep(searching(tmp_path), tmp_path / "out", ALONE).known == 16


def test_a_search_says_that_its_precision_was_not_reached(tmp_path: Path) -> None:
    made = run_sweep(searching(tmp_path), tmp_path / "out", ALONE, until=parse_until("1%"))
    assert made.ended == (
        "Ended at 16 points, as many as search.points allows, before 5 rounds found nothing better by 0.01 of it"
    )
    assert not run_sweep(searching(tmp_path), tmp_path / "out", ALONE).ended


def test_a_precision_takes_samples_alone(tmp_path: Path) -> None:
    sampling = {"method": "random", "count": 4}
    made = study(tmp_path, HOST, {"key": MICRO, "values": [1, 2]}, goal=GOAL, sampling=sampling, plans=["ddp"])
    with pytest.raises(InputError, match="--until: a precision is of a mean over samples; allowed: a study of one sc"):
        run_sweep(made, tmp_path / "out", ALONE, until=parse_until("1%"))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"goal": {"column": "mfu"}, "replay": True}, "goal.column: got mfu, which replayed rows have not; allowed: "),
        ({"goal": {"column": "tokens_per_second"}}, 'goal.column: no column "tokens_per_second" of numbers; did you'),
        ({"goal": {"column": "fits"}}, 'goal.column: no column "fits" of numbers'),
        ({"goal": {"column": "mfu", "against": "ddp"}}, "goal.against: got against without plan; allowed: with plan"),
        ({"search": {}}, "search: has no goal; allowed: a study with a table goal"),
        ({"search": {}, "goal": GOAL, "sampling": {"count": 4}}, "sampling: stands beside search; allowed: one of"),
        ({"search": {}, "goal": GOAL, "filters": ["1 < 2"]}, "filters: stands beside search; allowed: one of the two"),
        ({"sampling": {"method": "saltelli", "count": 8}}, "sampling.method: saltelli has no goal; allowed: a study"),
        (
            {"sampling": {"method": "saltelli", "count": 12}, "goal": GOAL},
            "sampling.count: got 12, allowed with saltelli",
        ),
        (
            {"sampling": {"method": "saltelli", "count": 8}, "goal": GOAL, "filters": ["1 < 2"]},
            "filters: stand beside saltelli, which needs all points; allowed: none",
        ),
        (
            {"goal": {"column": "mfu", "plan": "dpp"}, "search": {}},
            'goal.plan: no plan "dpp" in all scenarios; did you',
        ),
        (
            {"goal": GOAL, "search": {}, "replay": True},
            "replay: stands beside search; allowed: one of the two",
        ),
    ],
)
def test_a_goal_that_cannot_be_is_one_line(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        study(tmp_path, HOST, **more)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_a_wrong_end_of_a_search_is_told_at_its_axis(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"axes\[1\]: value 1, training\.micro_batch = 0, in .*, allowed: at least 1"):
        study(tmp_path, HOST, {"key": MICRO, "between": [0, 4]}, goal=GOAL, search={})


def test_a_search_over_values_in_order_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"axes\[1\]: is not searched over; allowed in a study with a search: between"):
        study(tmp_path, HOST, {"key": MICRO, "values": [1, 2]}, goal=GOAL, search={})


def test_until_takes_a_study_that_grows(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--until: not with the points of this study; allowed: a study that searches"):
        run_sweep(sampled(tmp_path, "latin-hypercube"), tmp_path / "out", ALONE, until=parse_until("20"))
    with pytest.raises(InputError, match="--until: the first round alone has 8 points"):
        run_sweep(sampled(tmp_path, "random"), tmp_path / "out", ALONE, until=parse_until("4"))
