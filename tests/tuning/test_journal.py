"""The journal of a search: what is read again, what is work that is not done, and what cannot be kept."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.limits import JOURNAL_LINE
from simfrontier.tuning.evaluator import READERS
from simfrontier.tuning.journal import NAME, JournalError, journal_in

DIGEST = "d" * 64
OUTLINE = {"estimate": {"step_s": 0.1, "floor_s": 1e-3, "peak_bytes": 5e9}, "too_big": 0.0, "fault": ""}
FAULT = {"why": "the library has no such algorithm"}


class Stopped(Exception):
    pass


def kept(folder: Path, count: int = 5) -> Path:
    """The file of a search that was stopped after so many results."""
    with pytest.raises(Stopped), journal_in(folder, DIGEST, READERS) as journal:
        for number in range(count):
            journal.add("outline", f"plan {number}", OUTLINE)
        raise Stopped
    return folder / NAME


def known(folder: Path, digest: str = DIGEST) -> list[str]:
    """The keys that the next search of that digest finds; its file stays."""
    with pytest.raises(Stopped), journal_in(folder, digest, READERS) as journal:
        results = [key for _, key in journal.known]
        raise Stopped
    return results


def plans(*numbers: int) -> list[str]:
    return [f"plan {number}" for number in numbers]


def forged(*said: Any) -> str:
    """A line with the right checksum, as other code would write it that says it is this version."""
    text = json.dumps(list(said))
    return f"{sha256(DIGEST.encode() + b' ' + text.encode()).hexdigest()[:16]} {text}\n"


def test_what_was_kept_is_known_and_a_search_that_is_done_leaves_nothing(tmp_path: Path) -> None:
    out = tmp_path / "deep" / "out"
    kept(out)
    with journal_in(out, DIGEST, READERS) as journal:
        assert journal.get("outline", "plan 3") == OUTLINE
        journal.add("own", "zero3", FAULT)
        assert (out / NAME).read_text().count("\n") == 7
    assert list(out.iterdir()) == []


Damage = Callable[[list[bytes]], list[bytes]]
DAMAGES: dict[str, tuple[Damage, list[str]]] = {
    "one bit": (lambda lines: [*lines[:2], lines[2].replace(b"too_big", b"too_bif"), *lines[3:]], plans(0, 2, 3, 4)),
    "a number": (lambda lines: [*lines[:3], lines[3].replace(b"0.001", b"0.002"), *lines[4:]], plans(0, 1, 3, 4)),
    "a checksum": (lambda lines: [*lines[:3], b"0" * 16 + lines[3][16:], *lines[4:]], plans(0, 1, 3, 4)),
    "the last torn": (lambda lines: [*lines[:5], lines[5][:40]], plans(0, 1, 2, 3)),
    "the last without its end": (lambda lines: [*lines[:5], lines[5][:-1]], plans(0, 1, 2, 3, 4)),
    "two in one": (lambda lines: [*lines[:2], lines[2][:-1] + lines[3], *lines[4:]], plans(0, 3, 4)),
    "the head torn": (lambda lines: [lines[0][:20] + b"\n", *lines[1:]], plans(0, 1, 2, 3, 4)),
    "the head gone": (lambda lines: lines[1:], plans(0, 1, 2, 3, 4)),
    "no text": (lambda lines: [*lines[:3], b"\xff\xfe\x00\n", *lines[3:]], plans(0, 1, 2, 3, 4)),
    "a long line": (lambda lines: [*lines[:3], b"x" * 3 * JOURNAL_LINE.most + b"\n", *lines[3:]], plans(0, 1, 2, 3, 4)),
    "a long end": (lambda lines: [*lines, b"[" * 3 * JOURNAL_LINE.most], plans(0, 1, 2, 3, 4)),
    "nothing": (lambda lines: [], []),
    "before checksums": (lambda lines: [line[17:] for line in lines], []),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_line_is_work_that_is_not_done(name: str, tmp_path: Path) -> None:
    damage, expected = DAMAGES[name]
    path = kept(tmp_path)
    path.write_bytes(b"".join(damage(path.read_bytes().splitlines(keepends=True))))
    assert known(tmp_path) == expected
    assert path.stat().st_size < 2000  # what was read anew is what the file has
    assert known(tmp_path) == expected


@pytest.mark.parametrize(
    "line",
    [
        forged("outline", "p", {"estimate": None}),
        forged("outline", "p", {**OUTLINE, "estimate": {"step_s": 0.1}}),
        forged("outline", "p", {**OUTLINE, "estimate": {**OUTLINE["estimate"], "step_s": "0.1"}}),  # type: ignore[dict-item]
        forged("outline", "p", {**OUTLINE, "too_big": float("nan")}),
        forged("outline", "p", {**OUTLINE, "estimate": [0.1]}),
        forged("outline", "p", 5),
        forged("outline", "p"),
        forged("simulated", "p", {"step_s": 1.0, "parts": {}, "peak_bytes": 1, "samples_s": []}),
        forged("simulated", "p", None),
        forged("nobody", "p", {}),
        forged(["outline"], "p", OUTLINE),
        forged(),
        forged("outline", "p", [[[]]]),
    ],
)
def test_a_value_that_is_no_result_is_work_that_is_not_done(line: str, tmp_path: Path) -> None:
    path = kept(tmp_path, 2)
    path.write_text(path.read_text() + line)
    assert known(tmp_path) == plans(0, 1)


def test_lines_of_another_search_do_not_count_even_without_its_head(tmp_path: Path) -> None:
    path = kept(tmp_path)
    with pytest.raises(InputError, match="is of another search that was stopped"):
        known(tmp_path, "e" * 64)
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[1:]))
    assert known(tmp_path, "e" * 64) == []


def test_a_planted_link_is_not_followed(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    (tmp_path / NAME).symlink_to(mine)
    kept(tmp_path)
    assert mine.read_text() == "mine" and not (tmp_path / NAME).is_symlink()


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_what_is_no_file_is_refused(make: Callable[[Path], None], tmp_path: Path) -> None:
    make(tmp_path / NAME)
    with pytest.raises(InputError, match=rf"{NAME}: cannot be written: "):
        known(tmp_path)


def test_a_full_disk_is_one_line_and_what_was_kept_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It may fill up in the middle of a line."""
    kept(tmp_path, 2)
    write = os.write

    def full(file: int, content: bytes) -> int:
        if len(content) < 100:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content[:60])

    with pytest.raises(JournalError) as caught, journal_in(tmp_path, DIGEST, READERS) as journal:
        monkeypatch.setattr(os, "write", full)
        journal.add("outline", "plan 2", OUTLINE)
    assert str(caught.value) == (
        f"{tmp_path / NAME}: cannot be written: No space left on device; what it has stays: the same command goes on "
        "from there"
    )
    monkeypatch.undo()
    assert known(tmp_path) == plans(0, 1)


@pytest.mark.parametrize("is_answered", [False, True])
def test_a_search_that_cannot_be_made_leaves_nothing_and_an_answer_that_cannot_be_written_all(
    is_answered: bool, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    with pytest.raises(SimfrontierError), journal_in(out, DIGEST, READERS) as journal:
        journal.add("outline", "plan 0", OUTLINE)
        journal.is_answered = is_answered
        raise SimfrontierError("no")
    assert out.exists() == is_answered
    assert known(out) == plans(*([0] if is_answered else []))
