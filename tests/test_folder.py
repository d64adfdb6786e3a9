"""A folder of results says what is wrong with it, and not what is wrong with other files."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from simfrontier.commands.folder import filled
from simfrontier.errors import InputError


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
