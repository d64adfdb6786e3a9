"""Real ranks that are killed with `kill -9` in a step or in a checkpoint, and go on from the last whole one."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from simfrontier.schedule import save
from tests.real.checkpointed import same_batch
from tests.real.grids import megatron
from tests.real.ranks import Ended, WarmRanks, run_ranks, trained
from tests.real.schedules import EXACT, Sizes

LIMIT_S = 200.0  # of a whole launch, on a box that is busy with other tests
PROMPT_S = 30.0  # within which all ranks of a run with a killed one have ended, start included
STEPS = 4
KILLED = "tests.real.killed_ranks"


def file_of(folder: Path, name: str, sizes: Sizes, plan: str, **how: Any) -> Path:
    path = folder / f"schedule-{name}.json"
    save(same_batch(EXACT[plan], sizes, **how), path)
    return path


def arguments(path: Path, checkpoints: Path | None, *more: str, steps: int = STEPS) -> list[str]:
    where = [] if checkpoints is None else ["--checkpoint", str(checkpoints), "--every", "1"]
    return ["train", str(path), "--steps", str(steps), "--timeout", "20", *where, *more]


def contents(folder: Path) -> dict[str, bytes]:
    """The files of the checkpoint after the last step."""
    return {path.name: path.read_bytes() for path in (folder / f"step-{STEPS:06}").iterdir()}


def killed(command: list[str], victim: int, how: list[str], size: int) -> Ended:
    """All ranks of a run of which one kills itself: none stays, each has ended with an error, nobody is told twice."""
    ranks = WarmRanks.start([[str(victim), *how, *command]] * size, module=KILLED)
    while ranks.processes[victim].is_alive():
        time.sleep(0.02)
    begun = time.monotonic()
    ended = ranks.wait(PROMPT_S)
    assert ended.orphans == () and time.monotonic() - begun < PROMPT_S
    assert ended.codes == tuple(-signal.SIGKILL if rank == victim else 1 for rank in range(size)), ended
    assert "Traceback" not in ended.err and ended.out == ""
    return ended


def test_a_rank_killed_in_a_step_ends_all_and_the_restart_reaches_the_same_bits(tmp_path: Path) -> None:
    """Rank 2 dies in the backward of the third step: one line names step, op and rank. After the restart every file of
    the last checkpoint has the bytes of the run that was never killed."""
    types = {"master": "bf16", "moments": "bf16"}
    path = file_of(tmp_path, "zero3", (2, 1, 2), "zero3", batch=4, precision="bf16", types=types)
    broken, whole = tmp_path / "broken", tmp_path / "whole"
    trained(arguments(path, whole, "--no-reference"), 4, LIMIT_S)
    ended = killed(arguments(path, broken, "--no-reference"), 2, ["op", "3", "60"], 4)
    (line,) = ended.err.splitlines()
    assert re.match(
        r"simfrontier-real: step 3, op \d+, .*: the connection to another rank broke \(it ended or was killed\).*; "
        r"rank 2 gives no sign of life",
        line,
    ), line
    assert sorted(each.name for each in broken.iterdir()) == ["step-000001", "step-000002"]
    again = trained(arguments(path, broken, "--no-reference", "--resume", str(broken)), 4, LIMIT_S)
    assert f"going on after step 2, from {broken / 'step-000002'}\n" in again.out and again.err == ""
    assert contents(broken) == contents(whole) and len(contents(whole)) == 5


def test_a_rank_killed_while_it_writes_leaves_the_checkpoint_before_for_any_plan(tmp_path: Path) -> None:
    """And of that one a file is cut short: the one before it is used, by another plan on fewer ranks, and then by a
    third on more; each ends at the weights of the unsharded model that was never ended."""
    path = file_of(tmp_path, "zero3", (2, 1, 2), "zero3")
    folder = tmp_path / "run"
    command = arguments(path, folder, "--keep", "3")
    ended = killed(command, 1, ["bytes", "3", "1000"], 4)
    assert "rank 1 gives no sign of life" in ended.err and len(ended.err.splitlines()) == 1
    newest = folder / "step-000003"
    assert not (newest / "manifest.json").exists() and not (newest / "rank-00001.safetensors").exists()
    cut = folder / "step-000002" / "rank-00003.safetensors"
    size = cut.stat().st_size
    cut.write_bytes(cut.read_bytes()[:-1])

    report = tmp_path / "report.json"
    more = ("--resume", str(folder), "--json", str(report))
    ddp = file_of(tmp_path, "ddp", (1, 1, 2), "ddp")
    ended = trained(arguments(ddp, folder, *more, steps=3), 2, LIMIT_S)
    assert ended.err.splitlines() == [
        f"simfrontier-real: {newest}: has no manifest.json, which is written last: not finished; step-000001 is used",
        f"simfrontier-real: {cut}: is cut short: {size - 1:,} of {size:,} bytes; step-000001 is used",
    ]
    equal(report, 1, [2, 3])
    assert not list(newest.glob(".part-*"))
    topo = file_of(tmp_path, "topo", (2, 2, 2), "zero-topo")
    ended = trained(arguments(topo, folder, *more), 8, LIMIT_S)
    assert ended.err == "" and f"from {newest}\n" in ended.out
    equal(report, 3, [4])


@pytest.mark.parametrize("count", [0, 700])
def test_rank_0_killed_while_it_writes_the_manifest_leaves_the_checkpoint_before(count: int, tmp_path: Path) -> None:
    """It also holds the store that the others ask who speaks, so without it they may all speak."""
    path = file_of(tmp_path, "ddp", (1, 1, 2), "ddp", batch=2)
    folder = tmp_path / "run"
    ended = killed(arguments(path, folder, "--no-reference"), 0, ["manifest", "2", str(count)], 2)
    assert ended.err.splitlines() and all(line.startswith("simfrontier-real: ") for line in ended.err.splitlines())
    newest = folder / "step-000002"
    assert not (newest / "manifest.json").exists() and (newest / "rank-00000.safetensors").exists()
    again = trained(arguments(path, folder, "--no-reference", "--resume", str(folder), steps=2), 2, LIMIT_S)
    assert again.err.splitlines() == [
        f"simfrontier-real: {newest}: has no manifest.json, which is written last: not finished; step-000001 is used"
    ]
    assert sorted(each.name for each in newest.iterdir()) == ["manifest.json", "rank-00000.safetensors"]


def equal(report: Path, first: int, written: list[int]) -> None:
    """A report of a run that went on after so many steps, equal to the unsharded model's over all of them."""
    (result,) = json.loads(report.read_text(encoding="utf-8"))
    assert result["is_good"] and result["must_agree"] and result["first_step"] == first
    assert result["weights_error"] <= 1e-10 and result["loss_error"] <= 1e-10
    assert len(result["losses"]) == len(result["reference_losses"]) > first
    assert [each["steps"] for each in result["checkpoints"]] == written


def test_a_pipeline_goes_on_as_zero3(tmp_path: Path) -> None:
    pipeline, grid = tmp_path / "schedule-pipeline.json", tmp_path / "schedule-zero3.json"
    save(megatron(1, 2, 2, shape="tied").schedule, pipeline)
    save(megatron(2, 1, 2, shape="tied", data="zero3").schedule, grid)
    folder, report = tmp_path / "run", tmp_path / "report.json"
    trained(arguments(pipeline, folder, "--no-reference", steps=2), 4, LIMIT_S)
    trained(arguments(grid, None, "--resume", str(folder), "--json", str(report)), 4, LIMIT_S)
    equal(report, 2, [])


def test_what_cannot_be_gone_on_with_ends_all_ranks_in_one_line(tmp_path: Path) -> None:
    path = file_of(tmp_path, "ddp", (1, 1, 2), "ddp", batch=2)
    folder = tmp_path / "run"
    folder.mkdir()
    ended = run_ranks([arguments(path, None, "--resume", str(folder))] * 2, LIMIT_S)
    message = (
        f"simfrontier-real: --resume {folder}: no whole checkpoint: there is none; allowed: one, or --start-if-none"
    )
    assert (ended.codes, ended.orphans, ended.err) == ((2, 2), (), message + "\n")
    ended = run_ranks(
        [arguments(path, folder, "--no-reference", "--resume", str(folder), "--start-if-none", steps=1)] * 2, LIMIT_S
    )
    assert ended.codes == (0, 0), ended.err
    ended = run_ranks([arguments(path, None, "--resume", str(folder), "--seed", "1")] * 2, LIMIT_S)
    message = f"simfrontier-real: {folder / 'step-000001'}: is of another training: seed is 0 there, 1 here"
    assert (ended.codes, ended.orphans, ended.err) == ((2, 2), (), message + "\n")


def test_a_rank_that_cannot_write_its_file_ends_all_in_one_line(tmp_path: Path) -> None:
    """A folder stands where the file of rank 1 belongs."""
    path = file_of(tmp_path, "zero3", (1, 1, 2), "zero3", batch=2)
    folder = tmp_path / "run"
    (folder / "step-000002" / "rank-00001.safetensors" / "x").mkdir(parents=True)
    ended = run_ranks(
        [arguments(path, folder, "--no-reference", "--resume", str(folder), "--start-if-none")] * 2, LIMIT_S
    )
    assert ended.codes == (2, 2) and ended.orphans == (), ended
    last = ended.err.splitlines()[-1]
    assert re.search(r"step-000002.*: cannot be written: ", last) and "Traceback" not in ended.err, ended.err
    assert sorted(each.name for each in folder.iterdir()) == ["step-000001", "step-000002"]
