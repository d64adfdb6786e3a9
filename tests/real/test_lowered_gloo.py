"""Lowered collectives on real ranks over gloo: exactly the library's results, training, replay, and how runs end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.collectives import Recipe, save_lowered
from simfrontier.core.program import expand, load, save
from simfrontier.core.trace import read_perfetto
from simfrontier_real.ranks.session import _refuse_differences
from simfrontier_real.verify.verdict import scheduled_bytes
from tests.real.lowerings import MIXED, RINGS, lowered_of
from tests.real.ranks import Ended, run_ranks
from tests.real.schedules import ENGINES, EXACT, QUANTISED, schedule

LIMIT_S = 120.0  # of a whole launch, on a box that is busy with other tests
EQUAL = 1e-10  # the largest relative difference of a parameter tensor in float64


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Schedules of four ranks with their lowerings."""
    folder = tmp_path_factory.mktemp("schedules")
    kept = {
        "zero3": schedule(EXACT["zero3"], (2, 1, 2), 2, engine=ENGINES["tight"]),
        "topo": schedule(EXACT["zero-topo"], (2, 1, 2), 2),
        "order": schedule(EXACT["odd order"], (2, 2, 1), checkpointing="none"),
        "long": schedule(EXACT["zero3"], (2, 1, 2), grad_accum=12),
        "quantised": schedule(QUANTISED["qwz and qgz"], (2, 1, 2), precision="fp32"),
    }
    for number, (name, made) in enumerate(kept.items()):
        save(made, folder / f"schedule-{name}.json")
        saved = load(folder / f"schedule-{name}.json")
        save_lowered(lowered_of(saved, (RINGS, MIXED)[number % 2]), folder / f"lowered-{name}.json")
    return folder


def run(*arguments: list[str], limit_s: float = LIMIT_S) -> Ended:
    ended = run_ranks(arguments, limit_s)
    assert ended.orphans == () and "Traceback" not in ended.err, ended.err
    return ended


def train(files: Path, *names: str) -> list[str]:
    return ["train", *(str(files / f"schedule-{name}.json") for name in names), "--collectives", "lowered"]


def test_every_algorithm_over_gloo_is_exactly_the_library(tmp_path: Path) -> None:
    """All kinds and algorithms, pairs and fours, uneven chunks, late ranks; on four ranks."""
    ended = run_ranks([["1"]] * 4, LIMIT_S, module="tests.real.lowered_ranks")
    assert set(ended.codes) == {0}, ended.err
    assert sorted(ended.out.splitlines()) == [f"rank {rank}: 84 compared" for rank in range(4)]


def test_real_ranks_with_lowered_collectives_train_like_the_unsharded_model(files: Path, tmp_path: Path) -> None:
    report = tmp_path / "trained.json"
    names = ("zero3", "topo", "order", "quantised")
    arguments = [*train(files, *names), "--steps", "2", "--json", str(report), "--out", str(tmp_path / "traces")]
    ended = run(*[arguments] * 4)
    assert set(ended.codes) == {0}, ended.err
    results = json.loads(report.read_text(encoding="utf-8"))
    for name, result in zip(names, results, strict=True):
        assert result["is_good"] and result["message_bytes"] == result["scheduled_bytes"] > 0, result
        if name != "quantised":
            assert result["must_agree"] and result["weights_error"] <= EQUAL and result["loss_error"] <= EQUAL
        notes = read_perfetto(tmp_path / "traces" / f"trace-{name}.json").notes
        assert notes["collectives"].startswith("lowered, "), notes


def test_a_replay_says_how_its_collectives_were_carried(files: Path, tmp_path: Path) -> None:
    arguments = ["replay", str(files / "schedule-zero3.json"), "--out", str(tmp_path), "--collectives", "lowered"]
    ended = run(*[[*arguments, "--iterations", "2", "--warmup", "1", "--compute", "none"]] * 4)
    assert set(ended.codes) == {0}, ended.err
    trace = read_perfetto(tmp_path / "trace-zero3.json")
    made = load(files / "schedule-zero3.json")
    assert trace.notes["collectives"] == "lowered, ring"
    moved = sum(span.message_bytes for spans in trace.spans for span in spans)
    assert moved == scheduled_bytes(made, expand(made, made.roles[0])) * 4


def test_a_rank_that_carries_otherwise_is_named() -> None:
    everybody = [[("zero3", "digest", each)] for each in ("b" * 64, "", "b" * 64)]
    with pytest.raises(InputError, match=r"^rank 1 carries the collectives of zero3 otherwise than rank 0$"):
        _refuse_differences(everybody)


def test_ranks_that_wait_for_each_other_end_with_the_table(files: Path, tmp_path: Path) -> None:
    """Rank 1 goes round the ring the other way (and nobody compares): its neighbours wait in vain."""
    made = load(files / "schedule-zero3.json")
    save(made, tmp_path / "schedule-zero3.json")
    right = lowered_of(made)
    wrong = tuple(tuple(backwards(recipe) for recipe in groups) for groups in right.recipes)
    save_lowered(replace(right, recipes=wrong), tmp_path / "lowered-zero3.json")
    more = ["--unchecked", "--timeout", "4", "--no-reference"]
    mine, other = [*train(files, "zero3"), *more], [*train(tmp_path, "zero3"), *more]
    ended = run(mine, other, mine, mine, limit_s=60.0)
    assert set(ended.codes) == {1}, ended.err
    assert "simfrontier-real: stuck: no op has ended within the timeout" in ended.err
    assert "running op" in ended.err and "all_gather" in ended.err


def backwards(recipe: Recipe) -> Recipe:
    return replace(recipe, orders=tuple(order[::-1] for order in recipe.orders))
