"""Sweeps: the file comes back as it was, what is wrong in it is named, and medians by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.errors import InputError
from simfrontier_extras.emulation.crosscheck.sweep import (
    Implementation,
    SweepPoint,
    load_sweep,
    save_sweep,
    sweep_medians,
)

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf")), max_size=12)
POINTS = st.builds(
    SweepPoint,
    collectives=st.sampled_from(("lowered", "native")),
    kind=TEXT,
    group=TEXT,
    message_bytes=st.integers(1, 1 << 40).map(float),
    sim_s=st.floats(1e-9, 1e3),
    real_s=st.floats(1e-9, 1e3),
)


def point(message_bytes: float, ratio: float, way: Implementation = "lowered", kind: str = "all_gather") -> SweepPoint:
    return SweepPoint(
        collectives=way,
        kind=kind,
        group="world (16)",
        message_bytes=message_bytes,
        sim_s=0.01,
        real_s=0.01 * ratio,
    )


@given(made=st.lists(POINTS, max_size=5))
def test_a_sweep_comes_back_as_it_was(made: list[SweepPoint], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "sweep.json"
    save_sweep(made, path)
    assert load_sweep(path) == tuple(made)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "collectives",
            "lowerd",
            'points[0].collectives: got "lowerd", allowed: "lowered" or "native"; did you mean "lowered"?',
        ),
        ("kind", 3, "points[0].kind: got 3, allowed: a text"),
        ("message_bytes", 0, "points[0].message_bytes: got 0, allowed: at least 1 and at most 1e+30"),
        ("sim_s", 0, "points[0].sim_s: got 0, allowed: at least 1e-12 and at most 1e+09"),
        ("real_s", None, "points[0].real_s: got null, allowed: a number"),
        ("seconds", 1.0, "points[0].seconds: unknown key; "),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(tmp_path: Path, key: str, value: Any, message: str) -> None:
    path = tmp_path / "sweep.json"
    save_sweep([point(1e6, 1.0)], path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["points"][0][key] = value
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_sweep(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_medians_are_over_sizes_of_1_mib_and_more() -> None:
    """Ratios 1.05, 1.2 and 0.7: their median is 1.05, that of the distances 0.05, 0.2 and 0.3 is 0.2. 2^20 - 1 is too
    small to count, and what was done another way or is of another kind is apart."""
    mib = 1 << 20
    points = [
        point(mib - 1, 9.0),
        point(mib, 1.05),
        point(2 * mib, 1.2),
        point(4 * mib, 0.7),
        point(mib, 1.15, "native"),
        point(mib - 1, 1.0, kind="all_reduce"),
    ]
    lowered, native = sweep_medians(points)
    assert (lowered.collectives, lowered.num_sizes) == ("lowered", 3)
    assert (lowered.ratio, lowered.apart) == (pytest.approx(1.05), pytest.approx(0.2)) and not lowered.is_near
    assert (native.num_sizes, native.apart) == (1, pytest.approx(0.15)) and native.is_near  # 20 % are allowed it
