"""Files of checkpoints: cut short or changed at any byte they are refused in one line, and the one before is used."""

from __future__ import annotations

import json
import re
import shutil
import struct
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.errors import InputError
from simfrontier.schedule import load
from simfrontier_real.checkpoints.folder import prune, refuse_others, step_folder, steps_in
from simfrontier_real.checkpoints.manifest import (
    FORMAT,
    NAME,
    FileOf,
    LogicalTensor,
    Manifest,
    Stretch,
    manifest_text,
    read_manifest,
)
from simfrontier_real.checkpoints.parts import Part
from simfrontier_real.checkpoints.resume import CheckpointSettings, found_checkpoint, read_checkpoint
from simfrontier_real.checkpoints.shard_file import Entry, Key, entries_of, shard_bytes
from simfrontier_real.training_settings import TrainingSettings
from tests.invoke import invoke
from tests.real.checkpointed import OneRank, Run, loaded, one_line, same_batch
from tests.real.ranks import ROOT
from tests.real.schedules import EXACT


def tiny(folder: Path, steps: int = 1) -> Path:
    """A checkpoint of one weight of three numbers: a few hundred bytes in each of its two files."""
    at = step_folder(folder, steps)
    at.mkdir(parents=True)
    entry = Entry(key=Key("weight", "w", 0), dtype="F64", lines=1, part=Part(((0, 3),)))
    content = shard_bytes([(entry, np.arange(3.0).tobytes())], {"rank": "0"})
    (at / "rank-00000.safetensors").write_bytes(content)
    import hashlib

    file = FileOf(name="rank-00000.safetensors", rank=0, bytes=len(content), sha256=hashlib.sha256(content).hexdigest())
    stretch = Stretch(steps=steps, plan="ddp", mesh=(("gcd", 1),), schedule="0" * 64, loses="")
    manifest = Manifest(
        format=FORMAT,
        steps=steps,
        skipped=(),
        losses=(1.5,) * steps,
        counters={},
        model={"model": "m"},
        training={"seed": 0},
        history=(stretch,),
        tensors=(LogicalTensor(role="weight", name="w", layers=1, dtype="F64", shape=(3,)),),
        files=(file,),
    )
    (at / NAME).write_text(manifest_text(manifest), encoding="utf-8")
    return at


def refused(folder: Path) -> str:
    fault = read_checkpoint(folder)
    assert isinstance(fault, str), "it was taken"
    return one_line(fault)


@pytest.mark.parametrize("name", ["rank-00000.safetensors", NAME])
def test_a_file_that_is_cut_short_at_any_byte_is_refused(name: str, tmp_path: Path) -> None:
    at = tiny(tmp_path)
    assert not isinstance(read_checkpoint(at), str)
    path = at / name
    whole = path.read_bytes()
    assert 200 < len(whole) < 2000
    for count in range(len(whole)):
        path.write_bytes(whole[:count])
        fault = refused(at)
        assert fault.startswith(f"{path}: "), fault
        if name != NAME:
            assert fault == f"{path}: is cut short: {count:,} of {len(whole):,} bytes"


@pytest.mark.parametrize("name", ["rank-00000.safetensors", NAME])
def test_a_file_with_any_byte_changed_or_one_more_is_refused(name: str, tmp_path: Path) -> None:
    at = tiny(tmp_path)
    path = at / name
    whole = path.read_bytes()
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert refused(at).startswith(f"{path}: ")
    for more in (b"\n", b" ", b"\0"):
        path.write_bytes(whole + more)
        assert refused(at).startswith(f"{path}: ")


def test_a_file_or_a_manifest_that_is_missing_is_named(tmp_path: Path) -> None:
    at = tiny(tmp_path)
    (at / "rank-00000.safetensors").unlink()
    assert refused(at) == f"{at / 'rank-00000.safetensors'}: is not there"
    (at / NAME).unlink()
    assert refused(at) == f"{at}: has no manifest.json, which is written last: not finished"


def test_a_manifest_that_names_a_file_elsewhere_is_refused(tmp_path: Path) -> None:
    """Even one whose digest is right: nothing outside the folder is read."""
    at = tiny(tmp_path)
    manifest = read_manifest(at)
    elsewhere = replace(manifest, files=(replace(manifest.files[0], name="../../secret"),))
    (at / NAME).write_text(manifest_text(elsewhere), encoding="utf-8")
    assert refused(at).endswith("secret: is no name of a file of a checkpoint")


def test_a_manifest_of_another_format_is_refused(tmp_path: Path) -> None:
    at = tiny(tmp_path)
    (at / NAME).write_text(manifest_text(replace(read_manifest(at), format="other 7")), encoding="utf-8")
    assert refused(at) == f"{at / NAME}: format 'other 7'; allowed: {FORMAT!r}"


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_header_of_any_content_is_read_or_refused_in_one_line(data: st.DataObject) -> None:
    """Behind the digest, too: a file that says anything at all of itself is never a traceback."""
    entry = Entry(key=Key("weight", "w", 0), dtype="F32", lines=2, part=Part(((0, 3),), ((2, 1),)))
    content = bytearray(shard_bytes([(entry, bytes(16))], {}))
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        entries = entries_of(bytes(content[: data.draw(st.integers(0, len(content)))]), "file")
    except InputError as error:
        one_line(error)
        return
    for each in entries:
        assert each.offset + each.num_bytes <= len(content)


def test_a_file_is_one_of_safetensors_that_is_read_by_hand(tmp_path: Path) -> None:
    """By what the format says, https://huggingface.co/docs/safetensors: a length of 8 bytes, a header, the numbers."""
    at = Run(same_batch(EXACT["zero3"], (1, 1, 2))).save(tmp_path)
    content = (at / "rank-00001.safetensors").read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    metadata = header.pop("__metadata__")
    assert length % 8 == 0 and all(isinstance(value, str) for value in metadata.values())
    ends = [entry["data_offsets"] for entry in header.values()]
    assert ends[0][0] == 0 and ends[-1][1] == len(content) - 8 - length
    assert all(before[1] == after[0] for before, after in pairwise(ends))
    entry, part = header["master/qkv.weight/0"], json.loads(metadata["parts"])["master/qkv.weight/0"]
    first, end = entry["data_offsets"]
    numbers = np.frombuffer(content[8 + length + first : 8 + length + end], "<f8").reshape(entry["shape"])
    # 48 × 16 elements on two ranks: the second one has the second half
    assert entry["dtype"] == "F64" and part["block"] == [[0, 48], [0, 16]] and part["digits"] == [[2, 1]]
    from simfrontier_real.initial_states import initial_weights

    whole = initial_weights(same_batch(EXACT["zero3"], (1, 1, 2)), 0)["qkv.weight", 0]
    assert np.array_equal(numbers, whole.reshape(-1)[384:])


def test_the_documented_part_is_that_of_a_file(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "how-to" / "checkpoints.md").read_text(encoding="utf-8")
    (documented,) = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    at = Run(same_batch(EXACT["zero-topo"], (2, 1, 2))).save(tmp_path)
    content = (at / "rank-00001.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    parts = json.loads(header["__metadata__"]["parts"])
    assert documented.items() <= parts.items()


def test_the_documented_size_is_that_of_the_documented_run(tmp_path: Path) -> None:
    """Rank 1 of zero3 after ten steps."""
    text = (ROOT / "docs" / "how-to" / "checkpoints.md").read_text(encoding="utf-8")
    (command,) = re.findall(r"^simfrontier (export .*) --out /tmp/c/4$", text, re.M)
    (documented,) = re.findall(r"rank-00001.safetensors: is cut short: [\d,]+ of ([\d,]+) bytes", text)
    made = invoke(*command.split(), "--out", tmp_path)
    assert made.code == 0, made
    run = Run(load(tmp_path / "schedule-zero3.json"))
    run.steps = 10
    assert f"{(run.save(tmp_path) / 'rank-00001.safetensors').stat().st_size:,}" == documented


# ── which one is used ──

SCHEDULE = same_batch(EXACT["zero3"], (1, 1, 2), batch=2)
TRAINING = TrainingSettings(steps=9)


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


PLACES = {"empty": 0.0, "a byte": 1e-9, "in its header": 0.02, "in its numbers": 0.6, "all but a byte": 1.0}


@pytest.mark.parametrize("where", PLACES)
@pytest.mark.parametrize("name", ["rank-00000.safetensors", "rank-00001.safetensors", NAME])
def test_a_checkpoint_that_is_cut_short_leaves_the_one_before(
    name: str, where: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = copied / "step-000003" / name
    whole = path.read_bytes()
    path.write_bytes(whole[: min(len(whole) - 1, -int(-PLACES[where] * len(whole) // 1))])
    used = found(copied)
    assert used.manifest.steps == 2 and used.refused == (copied / "step-000003",)
    line = one_line(capsys.readouterr().err.strip())
    assert line.startswith(f"simfrontier-real: {path}: ") and line.endswith("; step-000002 is used")


def test_two_that_are_not_whole_are_both_told(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copied / "step-000003" / NAME).unlink()
    (copied / "step-000002" / "rank-00001.safetensors").unlink()
    assert found(copied).manifest.steps == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_where_none_is_whole_it_ends_or_starts(copied: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for steps in (1, 2, 3):
        (copied / f"step-{steps:06}" / NAME).unlink()
    with pytest.raises(InputError, match=r"no whole checkpoint: .*step-000003: has no manifest.json") as caught:
        found(copied)
    assert one_line(caught.value).endswith("allowed: one, or --start-if-none")
    assert found(copied, start_if_none=True) is None
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 3 and all(line.endswith("; training starts from the beginning") for line in lines)
    assert found(copied / "nowhere", start_if_none=True) is None
    with pytest.raises(InputError, match=r"cannot be read: No such file or directory"):
        found(copied / "nowhere")
    (copied / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: no whole checkpoint: there is none; allowed: one, or --start-if"):
        found(copied / "empty")


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (same_batch(EXACT["zero3"], (1, 1, 2), batch=4), "is of another model: batch is 2 there, 4 here"),
        (
            same_batch(EXACT["zero3"], (1, 1, 2), batch=2, precision="fp32"),
            r"is of another model: master of 4h_to_h.bias: 2 × F64 16 there, 2 × F32 16 in the schedule",
        ),
        (same_batch(EXACT["zero3"], (1, 1, 2), batch=2, optimizer="lamb"), 'optimizer is null there, "lamb" here'),
    ],
)
def test_a_checkpoint_of_another_model_is_refused(made: Any, message: str, three: Path) -> None:
    with pytest.raises(InputError, match=message) as caught:
        found(three, made)
    assert one_line(caught.value).startswith(f"{three / 'step-000003'}: is of another ")


def test_a_checkpoint_of_other_settings_is_refused(three: Path) -> None:
    with pytest.raises(InputError, match=r"is of another training: seed is 0 there, 1 here"):
        found(three, training=replace(TRAINING, seed=1))
    with pytest.raises(InputError, match=r"--steps: got 3, but .*step-000003 is after 3 steps; allowed: more"):
        found(three, training=replace(TRAINING, steps=3))


# ── folders ──


def test_the_last_whole_checkpoints_are_kept(tmp_path: Path) -> None:
    """Those that were refused, or were not finished, do not count as kept; what is newer than them is not touched."""
    for steps in (1, 2, 3, 4, 5):
        tiny(tmp_path, steps)
    (tmp_path / "step-000004" / NAME).unlink()
    (tmp_path / "other").mkdir()
    prune(tmp_path, 2, [tmp_path / "step-000005"])
    assert [steps for steps, _ in steps_in(tmp_path)] == [5, 4, 3, 2]
    prune(tmp_path, 1, [])
    assert [steps for steps, _ in steps_in(tmp_path)] == [5]
    assert (tmp_path / "other").is_dir()


def test_what_is_somebody_elses_in_an_old_checkpoint_stays(tmp_path: Path) -> None:
    tiny(tmp_path, 1)
    tiny(tmp_path, 2)
    (tmp_path / "step-000001" / "notes.txt").write_text("mine", encoding="utf-8")
    prune(tmp_path, 1, [])
    assert [path.name for path in (tmp_path / "step-000001").iterdir()] == ["notes.txt"]


def test_a_folder_with_another_runs_checkpoints_is_not_written(tmp_path: Path) -> None:
    run = tmp_path / "run"
    refuse_others(run, None)
    at = tiny(run)
    message = re.escape(f"--checkpoint: {run} holds checkpoints (step-000001); allowed: a folder without, or --resume")
    for resumed in (None, tmp_path / "other"):
        with pytest.raises(InputError, match=message):
            refuse_others(run, resumed)
    refuse_others(run, run)
    refuse_others(run, at)
