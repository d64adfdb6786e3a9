"""The store of results: what is added is there, whatever ends a process, and one process holds it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.answers.study import STORE, HeldError, ResultStore, store_in
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
