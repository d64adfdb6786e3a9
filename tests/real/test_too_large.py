"""A schedule of a full-size model is not trained where its ranks have no room: one line before anything is made."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.invoke import TOY, invoke
from tests.real.ranks import run_ranks

pytest.importorskip("torch")

LIMIT_S = 120.0
HUGE = ("model.hidden=65536", "model.heads=64", "model.num_layers=25")  # 1.3e12 parameters of 16 bytes on each rank


def test_training_that_has_no_room_is_refused_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "schedule-huge.json"
    settings = [word for setting in HUGE for word in ("--set", setting)]
    assert invoke("show", TOY, "--plan", "ddp", "--devices", "2", *settings, "--save", path).code == 0
    ended = run_ranks([["train", str(path), "--steps", "1"]] * 2, LIMIT_S)
    assert ended.codes == (2, 2) and ended.orphans == (), ended.err
    (line,) = ended.err.strip().splitlines()
    match = re.search(r"2 ranks on \S+ would hold at least ([\d,.]+) GB; allowed: what is free there, [\d,.]+ GB", line)
    assert match is not None and line.startswith(f"simfrontier-real: {path}: "), line
    assert float(match[1].replace(",", "")) > 40_000
