"""Calibrations: times between points worked by hand, the file read back as it was written, and files that are wrong."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from simfrontier.collectives import (
    Calibration,
    CallTable,
    MeasuredPoint,
    load_calibration,
    load_library,
    machine_numbers,
    write_calibration,
)
from simfrontier.collectives.calibration import KINDS, calibration_of, to_toml
from simfrontier.collectives.merge import merged
from simfrontier.errors import InputError
from simfrontier.limits import LARGEST_S, SMALLEST
from simfrontier.machine import load_machine
from simfrontier.schedule.ir import CollectiveKind


def table(
    *points: tuple[int, float], kind: CollectiveKind = "all_gather", ranks: int = 8, residual: float | None = None
) -> CallTable:
    listed = tuple(MeasuredPoint(bytes=size, seconds=seconds) for size, seconds in points)
    return CallTable(kind=kind, ranks=ranks, nodes=1, packages=ranks, points=listed, residual=residual)


def calibration(*calls: CallTable, **numbers: dict[str, float]) -> Calibration:
    return Calibration(
        title="gloo on test", where="test, 2 cores", when="2026-11-21", how="by hand", calls=calls, **numbers
    )


# ── times ──

THREE = table((1000, 2.0), (2000, 3.0), (4000, 9.0))


@pytest.mark.parametrize(
    ("num_bytes", "seconds"),
    [
        (1, 2.0),  # smaller messages take the first point's time
        (1000, 2.0),
        (1500, 2.5),
        (2000, 3.0),
        (3000, 6.0),
        (4000, 9.0),
        (5000, 12.0),  # beyond the last: (9 - 3) / 2000 per byte
        (10000, 27.0),
    ],
)
def test_times_between_and_beyond_points(num_bytes: int, seconds: float) -> None:
    assert THREE.seconds(num_bytes) == pytest.approx(seconds, rel=1e-12)


def test_the_slope_beyond_the_last_point() -> None:
    assert THREE.seconds_per_byte == 0.003
    # one point, or noise that makes the larger message the faster: as much per byte as the last point
    assert table((1000, 2.0)).seconds_per_byte == 0.002
    assert table((1000, 3.0), (2000, 3.0)).seconds_per_byte == 0.0015
    assert table((1000, 4.0), (2000, 3.0)).seconds(4000) == 6.0


@given(
    st.dictionaries(st.integers(1, 10**7), st.floats(1e-6, 10.0), min_size=1, max_size=6),
    st.integers(1, 4 * 10**7),
)
def test_no_size_is_faster_than_the_fastest(times: dict[int, float], num_bytes: int) -> None:
    drawn = table(*sorted(times.items()))
    assert num_bytes / drawn.seconds(num_bytes) <= drawn.fastest_bytes_per_s * (1 + 1e-9)


# ── the file ──

numbers = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12),
    st.floats(allow_nan=False, allow_infinity=False),
    max_size=3,
)
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
positive = st.floats(min_value=SMALLEST, max_value=LARGEST_S)
tables = st.builds(
    lambda group, times, spread, residual: CallTable(
        kind=group[0],
        ranks=group[1] * group[2] * group[3],
        nodes=group[1],
        packages=group[1] * group[2],
        points=tuple(MeasuredPoint(bytes=size, seconds=s, spread=spread) for size, s in sorted(times.items())),
        residual=residual,
    ),
    st.tuples(st.sampled_from(KINDS), st.integers(1, 4), st.integers(1, 4), st.integers(2, 4)),
    st.dictionaries(st.integers(1, 2**62), positive, min_size=1, max_size=4),
    st.none() | st.floats(0, 10),
    st.none() | st.floats(0, 10),
)
calibrations = st.builds(
    Calibration,
    title=texts,
    where=texts,
    when=texts,
    how=texts,
    machine=numbers,
    library=numbers,
    calls=st.lists(tables, max_size=4, unique_by=lambda drawn: drawn.group).map(tuple),
)


@given(calibrations)
def test_a_calibration_is_read_as_it_was_written(drawn: Calibration) -> None:
    assert calibration_of(tomllib.loads(to_toml(drawn)), "drawn") == drawn


def test_the_file_is_a_pleasant_one(tmp_path: Path) -> None:
    path = tmp_path / "box.toml"
    write_calibration(calibration(table((1048576, 0.0126)), machine={"device.hbm_bytes_per_s": 3.1e9}), path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("# A calibration: ")
    assert '"device.hbm_bytes_per_s" = 3100000000.0\n' in text
    assert '[[calls]]\nkind = "all_gather"\nranks = 8\nnodes = 1\npackages = 8\npoints = [\n' in text
    assert "    { bytes = 1048576, seconds = 0.0126 },\n" in text
    assert [file.name for file in tmp_path.iterdir()] == ["box.toml"]


@pytest.mark.parametrize("seconds", [0.0, -1.0, math.nan, math.inf])
def test_what_could_not_be_read_again_is_not_written(tmp_path: Path, seconds: float) -> None:
    with pytest.raises(InputError, match=r"calls\[0\]\.points\[0\]\.seconds: got "):
        write_calibration(calibration(table((1000, seconds))), tmp_path / "bad.toml")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        write_calibration(calibration(), tmp_path / "no" / "box.toml")
    assert str(caught.value).startswith(
        f"{tmp_path}/no/box.toml: cannot be written: No such file or directory; allowed"
    )


GOOD = to_toml(calibration(table((1000, 0.5), (2000, 0.6))))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("ranks = 8", "rank = 8", 'calls[0].rank: unknown key; did you mean "ranks"? (and 1 more fault)'),
        ("nodes = 1", "", "calls[0].nodes: missing"),
        (
            '"all_gather"',
            '"allgather"',
            'calls[0].kind: got "allgather", allowed: "all_gather", "reduce_scatter", "all_reduce" or "all_to_all"; '
            'did you mean "all_gather"?',
        ),
        ("ranks = 8", "ranks = 1", "calls[0].ranks: got 1, allowed: at least 2"),
        ("nodes = 1", "nodes = 3", "calls[0].nodes: got 3, allowed: a divisor of ranks = 8"),
        ("packages = 8", "packages = 3", "calls[0].packages: got 3, allowed: a divisor of ranks = 8"),
        (
            "nodes = 1\npackages = 8",
            "nodes = 4\npackages = 2",
            "calls[0].nodes: got 4, allowed: a divisor of packages = 2",
        ),
        ("bytes = 1000", "bytes = 0", "calls[0].points[0].bytes: got 0, allowed: at least 1"),
        ("bytes = 1000", "bytes = 1e3", "calls[0].points[0].bytes: got 1000.0, allowed: a whole number"),
        (
            "bytes = 2000",
            "bytes = 1000",
            "calls[0].points[1].bytes: got 1000 after 1000, allowed: ascending sizes, every",
        ),
        ("seconds = 0.5", "seconds = -0.5", "calls[0].points[0].seconds: got -0.5, allowed: more than 0"),
        ("seconds = 0.5", "seconds = nan", "calls[0].points[0].seconds: got NaN, allowed: a finite number"),
        ('where = "test, 2 cores"', "", "where: missing"),
        ("[machine]", "[machines]", 'machines: unknown key; did you mean "machine"?'),
    ],
)
def test_each_fault_of_a_calibration_is_one_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert GOOD.count(old) == 1
    path = tmp_path / "cal.toml"
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_calibration(path)
    assert str(caught.value).startswith(f"{path}: {message}") and "\n" not in str(caught.value)


def test_a_group_has_one_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"calls\[1\]: all_gather over 8 ranks on 1 nodes and 8 packages stands twice"):
        write_calibration(calibration(THREE, table((5, 1.0))), tmp_path / "cal.toml")


# ── what it says of machine and library ──

BUS = "link_classes.bus.bytes_per_s"


def test_numbers_of_the_library_are_measured_and_overrides_win() -> None:
    known = calibration(library={"ring.base_s": 1e-3, "direct.base_s": 2e-3})
    library = load_library("gloo", {"direct.base_s": 5e-3}, known)
    assert (library.ring.base_s, library.direct.base_s) == (1e-3, 5e-3)
    rows = {row.key: row for row in library.provenance()}
    assert (rows["ring.base_s"].kind, rows["ring.base_s"].source) == (
        "measured",
        "gloo on test: test, 2 cores, 2026-11-21",
    )
    assert rows["direct.base_s"].source == "scenario override"


def test_every_time_is_in_the_provenance() -> None:
    rows = [row for row in load_library("gloo", None, calibration(THREE)).provenance() if row.key.startswith("calls.")]
    assert [(row.key, row.value, row.unit, row.kind) for row in rows] == [
        ("calls.all_gather.ranks_8_nodes_1_packages_8.of_1000_bytes_s", 2.0, "s", "measured"),
        ("calls.all_gather.ranks_8_nodes_1_packages_8.of_2000_bytes_s", 3.0, "s", "measured"),
        ("calls.all_gather.ranks_8_nodes_1_packages_8.of_4000_bytes_s", 9.0, "s", "measured"),
    ]


def test_the_bus_carries_the_fastest_table() -> None:
    box, gloo = load_machine("box"), load_library("gloo")
    # all-gather over 8: 1000 bytes in 1 ms is 1e6/s, 7/8 of it sent by each of 8 ranks: 7e6/s.
    # reduce-scatter over 2 (four pairs): 4e5/s, 2 (n-1)/n = 1 of it sent by each of 8: 3.2e6/s.
    tables = (table((1000, 1e-3)), table((1000, 2.5e-3), kind="reduce_scatter", ranks=2))
    assert machine_numbers(calibration(*tables), box, gloo).numbers[BUS] == pytest.approx(7e6, rel=1e-12)
    assert machine_numbers(calibration(tables[1]), box, gloo).numbers[BUS] == pytest.approx(3.2e6, rel=1e-12)
    # the slope of the last two points counts too: 3000 bytes in 1 ms more
    steep = table((1000, 1e-3), (4000, 2e-3))
    assert machine_numbers(calibration(steep), box, gloo).numbers[BUS] == pytest.approx(21e6, rel=1e-12)


def test_the_bus_may_be_said_if_it_is_enough() -> None:
    box, gloo = load_machine("box"), load_library("gloo")
    assert machine_numbers(calibration(THREE, machine={BUS: 1e9}), box, gloo).numbers == {BUS: 1e9}
    with pytest.raises(InputError) as caught:
        machine_numbers(calibration(table((1000, 1e-3)), machine={BUS: 6e6}), box, gloo)
    assert str(caught.value) == (
        f'machine."{BUS}": got 6e+06, allowed: at least 7e+06, the total rate of all_gather over 8 ranks'
    )


def test_a_machine_without_a_bus_keeps_its_links() -> None:
    measured_numbers = machine_numbers(
        calibration(THREE, machine={"host.hook_s": 1e-6}), load_machine("frontier"), load_library("rccl")
    )
    assert measured_numbers.numbers == {"host.hook_s": 1e-6}


# ── several measurements ──


def test_what_was_measured_twice_gets_the_median_and_a_residual() -> None:
    first, second = table((1000, 2.0), (2000, 4.0)), table((1000, 2.2), (2000, 4.0), (4000, 9.0))
    (result,) = merged([first, second])
    assert [(point.bytes, point.seconds) for point in result.points] == [(1000, 2.1), (2000, 4.0), (4000, 9.0)]
    # 0.2 / 2.1 and 0: their median
    assert result.residual == pytest.approx(0.1 / 2.1, rel=1e-12)


def test_other_groups_stay_apart_and_as_they_are() -> None:
    several = (THREE, table((1000, 1.0), ranks=4, residual=0.3), table((1000, 1.0), kind="all_reduce"))
    assert merged(several) == several
