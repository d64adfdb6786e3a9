"""Training on real processes over gloo: many plans on two, four and eight ranks, against the unsharded model."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from simfrontier.core.program import digest, load, save
from simfrontier.core.trace import read_perfetto
from tests.real.ranks import Ended, trained
from tests.real.schedules import ENGINES, EXACT, QUANTISED, STALE, Sizes, schedule

LIMIT_S = 400.0  # of a whole launch, on a box that is busy with other tests


@dataclass(frozen=True)
class Case:
    """One schedule of a launch: a plan by its name in `schedules`, and how it is built."""

    plan: str
    sizes: Sizes
    how: dict[str, Any] = field(default_factory=dict)

    @property
    def options(self) -> tuple[str, dict[str, Any]]:
        return {**EXACT, **QUANTISED, "stale": STALE}[self.plan]


def case(plan: str, sizes: Sizes, **how: Any) -> Case:
    return Case(plan, sizes, how)


TIGHT, BY_LAYER, NO_OVERLAP = ENGINES["tight"], ENGINES["by layer"], ENGINES["no overlap"]

TWO = (
    case("ddp", (1, 1, 2), grad_accum=2),
    case("zero1", (2, 1, 1), checkpointing="none"),
    case("zero2", (1, 1, 2), grad_accum=2, engine=TIGHT),
    case("zero3", (2, 1, 1), grad_accum=2, engine=TIGHT),
    case("hsdp", (1, 1, 2), checkpointing="none", engine=BY_LAYER),
    case("zeropp", (2, 1, 1), grad_accum=2),
    case("zero-topo", (1, 1, 2), checkpointing="none", engine=NO_OVERLAP),
    case("reversed", (2, 1, 1), model="mlp", grad_accum=2),
    case("zero3", (1, 2, 1), precision="fp32", grad_accum=2),
    case("zero-topo", (1, 1, 2), precision="bf16"),
    case("zero2", (1, 1, 2), precision="fp16", model="mlp"),
    case("zero1 scattered", (1, 1, 2), grad_accum=2),
    case("zero1 next", (1, 1, 2), grad_accum=2),
    case("zero1 scattered", (1, 1, 2), precision="bf16", gradients="fp32", grad_accum=2),
    case("zero3", (1, 1, 2), optimizer="lamb", grad_accum=2),
    case("zero2", (1, 1, 2), precision="bf16", optimizer="lamb"),
    case("zero2", (1, 1, 2), model="tied", grad_accum=2),
    case("zero3", (1, 1, 2), model="tied", grad_accum=2, engine=TIGHT),
    case("zero1", (1, 1, 2), precision="bf16", moments="bf16", grad_accum=2),
    case("zero3", (1, 1, 2), precision="bf16", moments="bf16", master="bf16"),
)
FOUR = (
    case("ddp", (2, 1, 2), checkpointing="none"),
    case("zero-topo", (2, 1, 2), optimizer="lamb", precision="fp32"),
    case("zero1", (1, 2, 2), grad_accum=2),
    case("zero2", (2, 2, 1), checkpointing="none"),
    case("zero2 scattered", (2, 2, 1), grad_accum=2, engine=TIGHT),
    case("node all-reduced", (2, 2, 1), grad_accum=2),
    case("zero3", (2, 1, 2), grad_accum=2, engine=TIGHT),
    case("hsdp", (2, 1, 2), grad_accum=2),
    case("zeropp", (2, 1, 2), checkpointing="none", engine=TIGHT),
    case("zero-topo", (2, 1, 2), grad_accum=2),
    case("zero2", (1, 2, 2), model="tied", grad_accum=2),
    case("zero3", (2, 1, 2), model="tied", grad_accum=2, checkpointing="none"),
    case("copy", (2, 2, 1), grad_accum=2, checkpointing="none"),
    case("hierarchical", (2, 1, 2), engine=BY_LAYER),
    case("zero-topo", (4, 1, 1), model="mlp", grad_accum=2, precision="bf16"),
    case("zero2", (1, 2, 2), model="mlp", precision="fp16"),
    case("zeropp", (2, 1, 2), precision="fp32"),
    case("qwz and qgz", (2, 1, 2), precision="fp32"),
    case("stale", (2, 1, 2), grad_accum=2),
)
EIGHT = (
    case("ddp", (2, 2, 2), model="mlp"),
    case("zero3", (2, 2, 2), grad_accum=2),
    case("zeropp", (2, 2, 2)),
    case("zero-topo", (2, 2, 2), grad_accum=2),
    case("odd order", (2, 2, 2), checkpointing="none"),
    case("quantised topo", (2, 2, 2), precision="fp32", grad_accum=2),
)


def train(cases: tuple[Case, ...], folder: Path, steps: int) -> tuple[list[dict[str, Any]], Ended]:
    """Train all cases in one launch; what the ranks wrote, and how they ended."""
    files = []
    for number, each in enumerate(cases):
        path = folder / f"schedule-{number:02}-{each.plan.replace(' ', '-')}.json"
        how = {"precision": "fp64", **each.how}
        save(schedule(each.options, each.sizes, **how), path)
        files.append(str(path))
    report = folder / "trained.json"
    arguments = ["train", *files, "--steps", str(steps), "--json", str(report), "--out", str(folder / "traces")]
    (num_ranks,) = {math.prod(each.sizes) for each in cases}
    ended = trained(arguments, num_ranks, LIMIT_S)
    results: list[dict[str, Any]] = json.loads(report.read_text(encoding="utf-8"))
    return results, ended


@pytest.mark.parametrize(
    ("cases", "steps"),
    [
        pytest.param(FOUR, 3, id="4 ranks"),
        pytest.param(TWO, 20, id="2 ranks, twenty steps", marks=pytest.mark.long),
        pytest.param(EIGHT, 3, id="8 ranks", marks=pytest.mark.long),
    ],
)
def test_real_ranks_train_like_the_unsharded_model(cases: tuple[Case, ...], steps: int, tmp_path: Path) -> None:
    """Steps of Adam: float64 to 1e-10, float32 to 1e-5; what is quantised, 16-bit or stale is apart."""
    results, ended = train(cases, tmp_path, steps)
    assert len(results) == len(cases)
    for each, result in zip(cases, results, strict=True):
        where = f"{each}: {result['worst']} {result['weights_error']} {result['loss_error']}"
        precision = each.how.get("precision", "fp64")
        must_agree = each.plan in EXACT and precision in ("fp64", "fp32")
        assert result["digest"] == digest(load(tmp_path / f"schedule-{result['name']}.json")), where
        assert result["message_bytes"] == result["scheduled_bytes"] > 0, where
        assert result["must_agree"] == must_agree, where
        assert result["is_good"], where
        assert len(result["losses"]) == len(result["reference_losses"]) == steps
        (line,) = [line for line in ended.out.splitlines() if line.startswith(f"{result['name']} ")]
        assert "as scheduled" in line and f"{result['weights_error']:.1e}" in line
        if must_agree:
            limit = {"fp64": 1e-10, "fp32": 1e-5}[precision]
            assert result["weights_error"] <= limit and result["loss_error"] <= limit, where
            assert line.endswith("  equal")
        else:
            assert 1e-6 < result["weights_error"] < 0.5, where
            assert result["loss_error"] < 0.05, where
            assert line.endswith(f"  apart within bounds: {result['reason']}")
    assert len(list((tmp_path / "traces").iterdir())) == len(results)
    for each, result in zip(cases, results, strict=True):
        trace = read_perfetto(tmp_path / "traces" / f"trace-{result['name']}.json")
        assert trace.digest == result["digest"]
        assert trace.members == tuple((rank,) for rank in range(math.prod(each.sizes)))
        moved = sum(span.message_bytes for spans in trace.spans for span in spans)
        assert moved == result["scheduled_bytes"], each
