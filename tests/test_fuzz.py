"""The search for inputs that break a reader finds planted faults, and gives the same inputs for the same seed."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError
from tests.fuzz import readers, runner
from tests.fuzz.changes import changed
from tests.fuzz.readers import READERS, HalfWritten, Reader, whole
from tests.fuzz.samples import made_in

SAMPLES = {each.kind: [b'{"a": [1, 2, {"b": "c"}]}', b"a = 1\nb = 2\n"] for each in READERS.values()}


def raising(error: Exception) -> Callable[[Path, random.Random], None]:
    def read(path: Path, rng: random.Random) -> None:
        raise error

    return read


def spinning(path: Path, rng: random.Random) -> None:
    end = time.process_time() + 0.2
    while time.process_time() < end:
        pass


def taking(path: Path, rng: random.Random) -> None:
    bytearray(2 * runner.MEMORY)


@pytest.mark.parametrize(
    ("read", "fault"),
    [
        (raising(KeyError("x")), "traceback"),
        (raising(RecursionError()), "traceback"),
        (raising(HalfWritten("x")), "half-written"),
        (taking, "memory"),
        (spinning, "hang"),
    ],
    ids=["key", "recursion", "half-written", "memory", "hang"],
)
def test_planted_faults_are_found(monkeypatch: pytest.MonkeyPatch, read: Any, fault: str) -> None:
    planted = {"planted": Reader(kind="log", suffix=".txt", share=1.0, read=read)}
    monkeypatch.setattr(readers, "READERS", planted)
    monkeypatch.setattr(runner, "READERS", planted)
    monkeypatch.setattr(runner, "HANG_S", 0.1)
    result = runner.fuzz(SAMPLES, 1, [("planted", 0, 3)], 1, time.monotonic() + 60, lambda _: None)
    assert len(result) == 3 and {each[0] for each in result.faults} == {fault} and len(result.faults) == 3, result


def test_equal_seeds_give_equal_inputs() -> None:
    inputs = [runner.input_of(SAMPLES, 7, "trace", number) for number in range(40)]
    assert inputs == [runner.input_of(SAMPLES, 7, "trace", number) for number in range(40)]
    assert inputs != [runner.input_of(SAMPLES, 8, "trace", number) for number in range(40)]
    assert len(set(inputs)) > 30
    assert all(changed(random.Random(n), b"", [b"a", b""]) is not None for n in range(200))


def test_a_folder_with_less_than_its_manifest_lists_is_half_written(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text('{"files": ["results.csv"]}', encoding="utf-8")
    with pytest.raises(HalfWritten):
        whole(tmp_path)
    (tmp_path / "results.csv").write_text("", encoding="utf-8")
    whole(tmp_path)


def test_every_reader_reads_some_sample_to_its_end(tmp_path: Path) -> None:
    samples = made_in(tmp_path)
    for name, reader in READERS.items():
        if name == "killed-run":
            continue
        refused = []
        for sample in samples[reader.kind]:
            path = tmp_path / f"changed{reader.suffix}"
            path.write_bytes(sample)
            try:
                reader.read(path, random.Random(0))
                break
            except InputError as error:
                refused.append(str(error))
        else:
            pytest.fail(f"{name}: {refused}")


FROM_ELSEWHERE = (
    "kineto",
    "topology-xml",
    "inspector",
    "flight-recorder",
    "deepspeed",
    "benchmark-file",
    "log",
    "table",
)


def test_a_few_changed_files_of_other_programs_are_read_or_refused(tmp_path: Path) -> None:
    """A small part of `make fuzz READERS=...`, always the same."""
    samples = made_in(tmp_path / "samples")
    ended = {
        (reader, number): runner.read_one(samples, 3, reader, number, tmp_path)
        for reader in FROM_ELSEWHERE
        for number in range(25)
    }
    assert {key: each for key, each in ended.items() if each[0] not in ("read", "refused")} == {}
