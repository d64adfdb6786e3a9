"""Real ranks of which one is killed with `kill -9`, and others that go on from their checkpoints."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from simfrontier.core.program import save
from tests.real.checkpointed import same_batch
from tests.real.grids import megatron
from tests.real.ranks import Ended, WarmRanks, run_ranks, trained
from tests.real.schedules import EXACT, Sizes

LIMIT_S = 200.0  # of a whole launch, on a box that is busy with other tests
PROMPT_S = 40.0  # within which all ranks of a run with a killed one have ended, start included
STEPS = 4


def file_of(folder: Path, name: str, sizes: Sizes, plan: str, **how: Any) -> Path:
    path = folder / f"schedule-{name}.json"
    save(same_batch(EXACT[plan], sizes, **how), path)
    return path


def arguments(path: Path, checkpoints: Path | None, *more: str, steps: int = STEPS) -> list[str]:
    where = [] if checkpoints is None else ["--checkpoint", str(checkpoints), "--every", "1"]
    return ["train", str(path), "--steps", str(steps), "--timeout", "20", *where, *more]


def states(folder: Path) -> dict[str, torch.Tensor]:
    """All states after the last step, whole, by torch's own tool."""
    file = folder / "whole.pt"
    dcp_to_torch_save(folder / f"step-{STEPS:06}", file)
    held: dict[str, torch.Tensor] = torch.load(file)
    return held


def killed(command: list[str], victim: int, how: list[str], size: int) -> Ended:
    """All ranks of a run of which one kills itself: none stays, and each has ended with an error."""
    ranks = WarmRanks.start([[str(victim), *how, *command]] * size, module="tests.real.killed_ranks")
    while ranks.processes[victim].is_alive():
        time.sleep(0.02)
    ended = ranks.wait(PROMPT_S)
    assert ended.orphans == ()
    assert ended.codes == tuple(-signal.SIGKILL if rank == victim else 1 for rank in range(size)), ended
    assert "Traceback" not in ended.err and ended.out == ""
    return ended


def equal(report: Path, first: int, written: list[int]) -> None:
    """A report of a run that went on after so many steps, equal to the unsharded model's over all of them."""
    (result,) = json.loads(report.read_text(encoding="utf-8"))
    assert result["is_good"] and result["must_agree"] and result["first_step"] == first
    assert result["weights_error"] <= 1e-10 and result["loss_error"] <= 1e-10
    assert len(result["losses"]) == len(result["reference_losses"]) > first
    assert [each["steps"] for each in result["checkpoints"]] == written


def test_a_rank_killed_in_a_step_ends_all_and_the_restart_reaches_the_same_bits(tmp_path: Path) -> None:
    """Rank 2 dies in the backward of the third step: a line names step and op."""
    types = {"master": "bf16", "moments": "bf16"}
    path = file_of(tmp_path, "zero3", (2, 1, 2), "zero3", batch=4, precision="bf16", types=types)
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    trained(arguments(path, whole, "--no-reference"), 4, LIMIT_S)
    ended = killed(arguments(path, broken, "--no-reference"), 2, ["3", "60"], 4)
    assert re.search(r"^simfrontier-real: step 3, op \d+, .*: the connection to another rank broke", ended.err)
    assert sorted(each.name for each in broken.iterdir()) == ["step-000001", "step-000002"]
    again = trained(arguments(path, broken, "--no-reference", "--resume", str(broken)), 4, LIMIT_S)
    assert f"going on after step 2, from {broken / 'step-000002'}\n" in again.out and again.err == ""
    ours, theirs = states(broken), states(whole)
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in theirs)


def test_another_plan_on_other_ranks_goes_on_from_the_last_whole_checkpoint(tmp_path: Path) -> None:
    """A file of the newest is cut short: the one before it is used, by another plan on fewer ranks."""
    folder, report = tmp_path / "run", tmp_path / "report.json"
    path = file_of(tmp_path, "zero3", (2, 1, 2), "zero3")
    trained(arguments(path, folder, "--no-reference", steps=3), 4, LIMIT_S)
    cut = folder / "step-000003" / "__3_0.distcp"
    cut.write_bytes(cut.read_bytes()[:-1])
    ddp = file_of(tmp_path, "ddp", (1, 1, 2), "ddp")
    ended = trained(arguments(ddp, folder, "--resume", str(folder), "--json", str(report)), 2, LIMIT_S)
    (line,) = ended.err.splitlines()
    assert str(cut) in line and line.endswith("; step-000002 is used")
    equal(report, 2, [3, 4])


def test_a_pipeline_goes_on_as_zero3(tmp_path: Path) -> None:
    pipeline, grid = tmp_path / "schedule-pipeline.json", tmp_path / "schedule-zero3.json"
    save(megatron(1, 2, 2, shape="tied").schedule, pipeline)
    save(megatron(2, 1, 2, shape="tied", data="zero3").schedule, grid)
    folder, report = tmp_path / "run", tmp_path / "report.json"
    trained(arguments(pipeline, folder, "--no-reference", steps=2), 4, LIMIT_S)
    trained(arguments(grid, None, "--resume", str(folder), "--json", str(report)), 4, LIMIT_S)
    equal(report, 2, [])


def test_a_checkpoint_that_cannot_be_resumed_or_written_ends_all_ranks_in_one_line(tmp_path: Path) -> None:
    path = file_of(tmp_path, "ddp", (1, 1, 2), "ddp", batch=2)
    folder = tmp_path / "run"
    folder.mkdir()
    ended = run_ranks([arguments(path, None, "--resume", str(folder))] * 2, LIMIT_S)
    message = f"--resume {folder}: no whole checkpoint: there is none; allowed: one, or --start-if-none"
    assert (ended.codes, ended.orphans, ended.err) == ((2, 2), (), f"simfrontier-real: {message}\n")
    (folder / "step-000001").write_text("in the way", encoding="utf-8")
    ended = run_ranks([arguments(path, folder, "--no-reference")] * 2, LIMIT_S)
    assert ended.codes == (2, 2) and ended.orphans == (), ended
    assert "step-000001: cannot be written" in ended.err and len(ended.err.splitlines()) == 1, ended.err
