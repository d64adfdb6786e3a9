"""Pickles of plain values are what Python reads of them, and no other pickle is followed at all."""

from __future__ import annotations

import builtins
import os
import pickle
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.measured.plain_pickle import Unfit, plain_pickle

PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 70), 1 << 70) | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner, inner),
    max_leaves=30,
)  # fmt: skip


def listed(value: Any) -> Any:
    """The value with lists for tuples."""
    if isinstance(value, dict):
        return {name: listed(inner) for name, inner in value.items()}
    return [listed(inner) for inner in value] if isinstance(value, list | tuple) else value


@given(value=PLAIN, protocol=st.sampled_from([2, 3, 4, 5]))
def test_a_plain_pickle_is_what_python_reads(value: object, protocol: int) -> None:
    assert plain_pickle(pickle.dumps(value, protocol=protocol)) == listed(value)


class Touches:
    """Unpickled by Python it writes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_what_calls_something_is_refused_and_not_called(tmp_path: Path, protocol: int) -> None:
    path = tmp_path / "made"
    data = pickle.dumps({"version": Touches(path)}, protocol=protocol)
    with pytest.raises(Unfit, match=r"^byte \d+: opcode (GLOBAL|STACK_GLOBAL); allowed: those of plain values$"):
        plain_pickle(data)
    assert not path.exists()
    pickle.loads(data)
    assert path.exists()  # the pickle was a live one


@pytest.mark.parametrize("value", [{1, 2}, frozenset({1}), b"x", 1j, builtins.print, bytearray(b"x"), range(3)])
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(Unfit):
        plain_pickle(pickle.dumps(value, protocol=2))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x80\x02.", "not a whole pickle: 0 values at its end"),
        (b"\x80\x02NN.", "not a whole pickle: 2 values at its end"),
        (b"\x80\x02(N.", "not a whole pickle: 2 values at its end|1 values at its end"),
        (b"\x80\x02h\x05.", "byte 2: refers to value 5, which is not there"),
        (b"\x80\x02e.", "not a whole pickle: a mark is missing"),
        (b"\x80\x02]a.", "not a whole pickle: a value is missing|no list to add to"),
        (b"\x80\x02(]e.", "not a whole pickle: no list to add to"),
        (b"\x80\x02N(Ne.", "not a whole pickle: no list to add to"),
        (b"\x80\x02q\x00.", "not a whole pickle: no object to add to"),
        (b"\x80\x02}(K\x01K\x02u.", "a table with a key that is no text, or stands twice"),
        (b"\x80\x02}(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00aK\x02u.", "stands twice"),
        (b"\x80\x02}(X\x01\x00\x00\x00au.", "not a whole pickle"),
        (b"\x80\x02G\x7f\xf0\x00\x00\x00\x00\x00\x00.", "inf is not a number"),
        (b"\x80\x02X\xff\xff\xff\xffa.", "not a whole pickle"),
        (b"\x80\x02I1\n.", "opcode INT"),
        (b"\x80\x02" + b"]" * 2_000_001 + b".", "2,000,001 values; allowed: up to 2,000,000"),
    ],
)
def test_a_pickle_that_is_none_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(Unfit, match=message):
        plain_pickle(data)


def test_what_grows_by_references_is_refused_before_it_is_written_out() -> None:
    bomb: list[Any] = []
    for _ in range(60):
        bomb = [bomb, bomb]  # 2^60 lists, in 400 bytes
    with pytest.raises(Unfit, match="lists and tables in one another"):
        plain_pickle(pickle.dumps(bomb, protocol=2))
    flat = [0] * 2_000
    with pytest.raises(Unfit, match="values; allowed: up to 2,000,000"):
        plain_pickle(pickle.dumps([flat] * 2_000, protocol=2))
    ring: list[Any] = []
    ring.append(ring)
    with pytest.raises(Unfit):
        plain_pickle(pickle.dumps(ring, protocol=2))
