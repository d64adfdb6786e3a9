"""Folders of checkpoints: the newest whole one of the same run is used, everything else is refused in one line."""

from __future__ import annotations

import pickle
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from simfrontier.base.errors import InputError
from simfrontier_real.train.checkpoints.manifest import MANIFEST, prune, refuse_others, steps_in
from simfrontier_real.train.checkpoints.run import CheckpointSettings, found_checkpoint
from simfrontier_real.train.checkpoints.states import ChunkReader
from simfrontier_real.train.training_settings import TrainingSettings
from tests.real.checkpointed import OneRank, Run, loaded, one_line, same_batch
from tests.real.schedules import EXACT

SCHEDULE = same_batch(EXACT["zero3"], (1, 1, 2), batch=2)
TRAINING = TrainingSettings(steps=9)
FILE = "__0_0.distcp"


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints after one, two and three steps."""
    folder = tmp_path_factory.mktemp("three")
    run = Run(SCHEDULE, training=TRAINING)
    for steps in (1, 2, 3):
        run.train(steps).save(folder)
    return folder


@pytest.fixture
def copied(three: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(three, tmp_path / "run"))


def found(folder: Path, made: Any = SCHEDULE, training: TrainingSettings = TRAINING, **how: Any) -> Any:
    world: Any = OneRank()
    return found_checkpoint(world, loaded(made), training, CheckpointSettings(resume=folder, **how))


def test_the_newest_whole_checkpoint_is_used(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert found(copied).manifest.steps == 3
    assert capsys.readouterr().err == ""
    assert found(copied / "step-000002").manifest.steps == 2


@pytest.mark.parametrize("name", [FILE, ".metadata", MANIFEST])
@pytest.mark.parametrize("damage", ["cut short", "changed", "missing"])
def test_a_damaged_checkpoint_leaves_the_one_before(
    name: str, damage: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied / "step-000003" / name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 255
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(content[:-9] if damage == "cut short" else content)
    used = found(copied)
    assert used.manifest.steps == 2 and used.refused == (copied / "step-000003",)
    line = one_line(capsys.readouterr().err.strip())
    assert line.startswith(f"simfrontier-real: {path.parent}") and line.endswith("; step-000002 is used")


def test_where_none_is_whole_it_ends_or_starts(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for steps in (1, 2, 3):
        (copied / f"step-{steps:06}" / MANIFEST).unlink()
    with pytest.raises(InputError, match=r"no whole checkpoint: .*step-000003: has no manifest.json") as caught:
        found(copied)
    assert one_line(caught.value).endswith("allowed: one, or --start-if-none")
    assert found(copied, start_if_none=True) is None
    assert len(capsys.readouterr().err.splitlines()) == 3
    assert found(copied / "nowhere", start_if_none=True) is None
    with pytest.raises(InputError, match=r"cannot be read: No such file or directory"):
        found(copied / "nowhere")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"batch": 4}, "is of another model: batch is 2 there, 4 here"),
        ({"optimizer": "lamb"}, 'optimizer is null there, "lamb" here'),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(keys: dict[str, Any], message: str, three: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        found(three, same_batch(EXACT["zero3"], (1, 1, 2), **{"batch": 2, **keys}))
    assert one_line(caught.value).startswith(f"{three / 'step-000003'}: is of another ")


def test_metadata_that_would_run_code_is_refused(tmp_path: Path) -> None:
    (tmp_path / ".metadata").write_bytes(pickle.dumps(print))
    with pytest.raises(InputError, match=r"builtins\.print does not belong in a checkpoint"):
        ChunkReader(tmp_path).read_metadata()


def test_the_last_whole_checkpoints_are_kept(copied: Path) -> None:
    """Those that were refused, or were not finished, do not count."""
    (copied / "step-000002" / MANIFEST).unlink()
    prune(copied, 1, [copied / "step-000003"])
    assert [steps for steps, _ in steps_in(copied)] == [3, 2, 1]
    prune(copied, 1, [])
    assert [steps for steps, _ in steps_in(copied)] == [3]


def test_a_folder_with_another_runs_checkpoints_is_not_written(three: Path, tmp_path: Path) -> None:
    refuse_others(tmp_path, None)
    message = re.escape(
        f"--checkpoint: {three} holds checkpoints (step-000003); allowed: a folder without, or --resume"
    )
    for resumed in (None, tmp_path):
        with pytest.raises(InputError, match=message):
            refuse_others(three, resumed)
    refuse_others(three, three)
    refuse_others(three, three / "step-000001")
