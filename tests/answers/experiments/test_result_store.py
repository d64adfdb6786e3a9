"""The store of results, and how settings are handed to workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.answers.study import STORE, HeldError, ResultStore, Setting, store_in
from simfrontier.answers.study.settings import MOST_OF_BATCH, batches_of
from tests.answers.sweep.studies import MICRO
from tests.invoke import ROOT

CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KILLED = """
import os, sys, itertools
from pathlib import Path
from simfrontier.answers.study import store_in

with store_in(Path(sys.argv[1])) as store:
    for number in itertools.count():
        store.add({f"{number} {part}": {"number": number} for part in "ab"})
        os.write(1, b"%d\\n" % number)
"""


@given(value=st.lists(st.dictionaries(st.text(), CELLS)))
def test_a_result_is_read_as_it_was_added(value: Any) -> None:
    store = ResultStore()
    store.add({"key": value})
    assert store.get("key") == value and repr(store.get("key")) == repr(value)
    assert "key" in store and "other" not in store and store.get("other") is None and len(store) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_a_process_that_is_killed_leaves_whole_transactions(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED, str(tmp_path)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if int(line) >= 20:
                os.kill(process.pid, signal.SIGKILL)
                break
    with store_in(tmp_path) as store:
        assert len(store) % 2 == 0 and all(f"{number} b" in store for number in range(20))


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        store.add({"key": 1})
        with pytest.raises(HeldError, match="another process writes it; allowed: another --out"), store_in(tmp_path):
            raise AssertionError("held by another")
    assert (tmp_path / STORE).is_file()


HOP = "library.overrides.ring.hop_between_nodes_s"


def settings_of(sizes: list[int]) -> list[tuple[str, Setting]]:
    """Settings in an order in which those of the same schedules, so many of each, stand apart."""
    pairs = sorted((place, micro) for micro, size in enumerate(sizes) for place in range(size))
    return [
        (str(number), Setting(document={}, where="a.toml", changes={MICRO: micro, HOP: 1e-6 * (1 + number)}))
        for number, (_, micro) in enumerate(pairs)
    ]


def batches(sizes: list[int], num_workers: int) -> list[list[tuple[str, Setting]]]:
    made = settings_of(sizes)
    return [[*batch] for batch in batches_of(made, len(made), num_workers)]


@given(sizes=st.lists(st.integers(1, 70), min_size=1, max_size=12), num_workers=st.integers(1, 40))
def test_every_setting_is_in_one_batch(sizes: list[int], num_workers: int) -> None:
    made = batches(sizes, num_workers)
    numbers = [int(digest) for batch in made for digest, _ in batch]
    assert sorted(numbers) == list(range(sum(sizes)))
    assert all(1 <= len(batch) <= MOST_OF_BATCH for batch in made)
