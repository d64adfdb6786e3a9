"""Mugs trained on real processes over gloo: one launch per number of ranks, each schedule against one process."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from simfrontier.core.program import save
from simfrontier_extras.mugs.tests.schedules import EQUAL, FROZEN, SMALL_QUEUE, STEPS, schedule
from tests.real.ranks import Ended, run_ranks

LIMIT_S = 200.0  # of a whole launch, on a box that is busy with other tests

CASES: dict[str, dict[str, Any]] = {
    "blocking": {},
    "overlapped": {"overlap_statistics": True},
    "frozen": {"shape": FROZEN, "overlap_statistics": True},
    "micro-batches": {"grad_accum": 2, "overlap": False},
    "fp32": {"precision": "fp32", "overlap_statistics": True},
}


def launched(files: list[Path], ranks: int, *options: str) -> Ended:
    arguments = ["train", *map(str, files), "--steps", str(STEPS), "--clip", "3.0", "--epsilon", "1e-4", *options]
    return run_ranks([arguments] * ranks, LIMIT_S)


@pytest.mark.parametrize(
    "sizes",
    [pytest.param((1, 1, 2), id="2 ranks"), pytest.param((2, 1, 2), id="4 ranks", marks=pytest.mark.long)],
)
def test_real_ranks_train_mugs_like_one_process(sizes: tuple[int, int, int], tmp_path: Path) -> None:
    """Weights, teacher, queues, memories, centre and losses: float64 to 1e-9, float32 to 1e-5."""
    files = [tmp_path / f"schedule-{name}.json" for name in CASES]
    for path, how in zip(files, CASES.values(), strict=True):
        save(schedule(sizes=sizes, **how), path)
    report = tmp_path / "trained.json"
    ended = launched(files, math.prod(sizes), "--json", str(report))
    assert ended.orphans == () and set(ended.codes) == {0}, ended.err or ended.out
    results = json.loads(report.read_text(encoding="utf-8"))
    assert [result["name"] for result in results] == list(CASES)
    for result in results:
        limit, where = EQUAL[result["precision"]], f"{result['name']}: {result['worst']}"
        assert result["must_agree"] and result["is_good"], where
        assert 0 < result["weights_error"] <= limit and result["loss_error"] <= limit, where
        assert result["message_bytes"] == result["scheduled_bytes"] > 0, where
        assert len(result["losses"]) == STEPS
        (line,) = [line for line in ended.out.splitlines() if line.startswith(f"{result['name']} ")]
        assert "  equal; clipped to 3 in " in line and "  none  " in line  # no codec: flags are bytes of their own


def test_a_small_queue_ends_the_run_with_one_line(tmp_path: Path) -> None:
    path = tmp_path / "schedule-small.json"
    save(schedule(SMALL_QUEUE), path)
    ended = launched([path], 2)
    assert ended.orphans == () and set(ended.codes) == {2}, (ended.codes, ended.err)
    (line,) = {line for line in ended.err.splitlines() if line}
    assert line.endswith("instance.queue: 16 rows enter in a step, but it has 15 entries; allowed: 16 or more")
