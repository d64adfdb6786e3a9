"""Folders and files of results: what is theirs is replaced, what is not stays, links are not followed, and one line
says what is wrong with them."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.wholefile import MANIFEST, filled, write_whole
from tests.invoke import ROOT, TOY, invoke


def test_what_is_not_in_the_folder_is_not_said_to_be(tmp_path: Path) -> None:
    """A file that is read meanwhile and is not there: no word of --out."""
    out, missing = tmp_path / "out", tmp_path / "missing.toml"
    with pytest.raises(FileNotFoundError) as caught, filled(out):
        missing.read_text(encoding="utf-8")
    assert caught.value.filename == str(missing)
    assert not out.exists()


def test_what_cannot_be_written_in_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the folder is named from here or from the root."""
    monkeypatch.chdir(tmp_path)
    for out in (Path("out"), tmp_path / "out"):
        with pytest.raises(InputError) as caught, filled(out) as new:
            (new / "deeper" / "results.csv").write_text("", encoding="utf-8")
        assert str(caught.value).startswith(f"--out {out}: cannot be written: No such file or directory; allowed: ")


def test_a_full_disk_names_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught, filled(tmp_path):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert str(caught.value).startswith(f"--out {tmp_path}: cannot be written: No space left on device; allowed: ")
    assert list(tmp_path.iterdir()) == []


def test_parents_that_were_made_go_with_the_folder(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="mine"), filled(tmp_path / "a" / "b" / "out"):
        raise InputError("mine")
    assert list(tmp_path.iterdir()) == []


# ── what is theirs ──


def test_a_run_removes_what_the_last_one_wrote_and_nothing_else(tmp_path: Path) -> None:
    assert invoke("run", TOY, "--plans", "zero3,ddp", "--devices", "2", "--out", tmp_path).code == 0
    for foreign in ("trace-mine.json", "trace-zero3-4.txt"):
        (tmp_path / foreign).write_text("mine")
    assert invoke("run", TOY, "--plans", "zero3", "--devices", "4", "--no-page", "--out", tmp_path).code == 0
    own = {"findings.json", "results.csv", MANIFEST, "trace-zero3-4.json"}
    assert set(os.listdir(tmp_path)) == own | {"trace-mine.json", "trace-zero3-4.txt"}
    assert set(json.loads((tmp_path / MANIFEST).read_text())["files"]) == own - {MANIFEST}


@pytest.mark.parametrize(
    "names",
    [["../mine"], [".hidden"], [5], "mine", None],
)
def test_a_manifest_cannot_name_what_is_not_a_file_of_its_folder(tmp_path: Path, names: object) -> None:
    out = tmp_path / "out"
    (out / "folder").mkdir(parents=True)
    for mine in (tmp_path / "mine", out / ".hidden", out / "folder" / "mine"):
        mine.write_text("mine")
    (out / MANIFEST).write_text(json.dumps({"files": names}))
    with filled(out, MANIFEST) as new:
        write_whole(new / "results.csv", "new")
    assert sorted(os.listdir(out)) == [".hidden", "folder", MANIFEST, "results.csv"]
    assert (tmp_path / "mine").exists() and (out / "folder" / "mine").exists()


# ── links, devices, names ──


def planted(folder: Path) -> Path:
    """A file elsewhere, with links to it at every name that can be guessed."""
    elsewhere = folder / "elsewhere"
    elsewhere.write_text("mine")
    for name in ("s.json", "results.csv", MANIFEST):
        (folder / name).symlink_to(elsewhere)
    return elsewhere


def test_a_planted_link_is_replaced_not_followed(tmp_path: Path) -> None:
    mine = planted(tmp_path)
    assert invoke("show", TOY, "--plan", "zero3", "--devices", "2", "--save", tmp_path / "s.json").code == 0
    assert invoke("run", TOY, "--plans", "zero3", "--devices", "2", "--no-page", "--out", tmp_path).code == 0
    assert mine.read_text() == "mine"
    assert not any((tmp_path / name).is_symlink() for name in ("s.json", "results.csv", MANIFEST))


def test_a_device_is_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(InputError) as caught:
        write_whole(pipe, "text")
    assert str(caught.value).startswith(f"{pipe}: cannot be written: is a device, not a file; allowed: ")
    assert pipe.is_fifo() and os.listdir(tmp_path) == ["pipe"]


@pytest.mark.parametrize("name", [".", "..", "/"])
def test_a_folder_is_no_file_to_write(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    with pytest.raises(InputError, match="cannot be written: "):
        write_whole(Path(name), "text")
    assert os.listdir(tmp_path) == ["inner"] and os.listdir(tmp_path / "inner") == []


@pytest.mark.skipif(sys.platform == "win32", reason="no limits")
def test_a_full_disk_leaves_a_run_as_it_was(tmp_path: Path) -> None:
    """A limit of the size of files stands for a full disk: the system refuses to write further."""
    out = tmp_path / "out"
    assert invoke("run", TOY, "--plans", "zero3", "--devices", "2", "--no-page", "--out", out).code == 0
    before = {file.name: file.read_bytes() for file in out.iterdir()}
    limit = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))"
    code = f"{limit}; from simfrontier.cli import main; main()"
    command = [sys.executable, "-c", code, "run", str(TOY), "--plans", "ddp", "--devices", "4", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"simfrontier: {out}/") and "cannot be written: File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert {file.name: file.read_bytes() for file in out.iterdir()} == before
