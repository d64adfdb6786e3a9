"""The store of results: what was added is there whatever ended the process, and a file that is none is one line."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.errors import InputError
from simfrontier.study import STORE, HeldError, ResultStore, forget, store_in
from tests.invoke import ROOT

CELLS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
KILLED = """
import os, sys, itertools
from pathlib import Path
from simfrontier.study import store_in

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


def test_what_is_added_again_is_the_last(tmp_path: Path) -> None:
    for value in (1, 2):
        with store_in(tmp_path) as store:
            store.add({"key": value})
    with store_in(tmp_path) as store:
        assert (store.get("key"), len(store)) == (2, 1)


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
        with pytest.raises(InputError, match="another process writes it; allowed: another --out"), store_in(tmp_path):
            raise AssertionError("held by another")
    assert (tmp_path / STORE).is_file()


def test_a_store_without_results_leaves_nothing(tmp_path: Path) -> None:
    with store_in(tmp_path / "deep" / "out"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_store_that_is_done_with_is_removed(tmp_path: Path) -> None:
    with store_in(tmp_path / "out") as store:
        store.add({"key": 1})
        store.is_done_with = True
    assert list(tmp_path.iterdir()) == []


def test_a_store_of_something_else_is_refused_and_stays(tmp_path: Path) -> None:
    with store_in(tmp_path, "sweep one") as store:
        store.add({"key": 1})
    with pytest.raises(InputError, match="has results of sweep one; allowed: another --out"), store_in(tmp_path, "b"):
        pass
    with store_in(tmp_path, "sweep one") as store:
        assert store.get("key") == 1


def test_what_another_process_holds_is_not_forgotten(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        store.add({"key": 1})
        with pytest.raises(HeldError):
            forget(tmp_path)
        store.add({"other": 2})
    with store_in(tmp_path) as store:
        assert len(store) == 2
    forget(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_refused_leaves_a_new_store_of_another(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        with pytest.raises(HeldError), store_in(tmp_path):
            pass
        store.add({"key": 1})
    with store_in(tmp_path) as store:
        assert store.get("key") == 1


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"")
    (tmp_path / STORE).symlink_to("elsewhere")
    with pytest.raises(InputError, match="is a link"), store_in(tmp_path):
        pass
    assert (tmp_path / "elsewhere").read_bytes() == b""


def test_another_version_is_one_line_that_says_fresh(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        store.add({"key": 1})
    with sqlite3.connect(tmp_path / STORE) as file:
        file.execute("UPDATE store SET version = '0.0.1'")
    file.close()
    with pytest.raises(InputError) as caught, store_in(tmp_path):
        pass
    assert "has results of simfrontier 0.0.1; allowed: of " in str(caught.value) and "--fresh" in str(caught.value)


@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\0" + b"\0" * 5000])
def test_a_file_that_is_no_store_is_one_line(tmp_path: Path, content: bytes) -> None:
    (tmp_path / STORE).write_bytes(content)
    with pytest.raises(InputError) as caught, store_in(tmp_path):
        pass
    assert "is no store of results, or damaged; allowed: --fresh" in str(caught.value)
    assert (tmp_path / STORE).read_bytes() == content


def test_a_damaged_result_is_one_line(tmp_path: Path) -> None:
    with store_in(tmp_path) as store:
        store.add({"key": 1})
    with sqlite3.connect(tmp_path / STORE) as file:
        file.execute("UPDATE result SET value = x'00'")
    file.close()
    with store_in(tmp_path) as store, pytest.raises(InputError, match="is no store of results, or damaged"):
        store.get("key")
