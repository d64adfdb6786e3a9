"""Calibrations: times between points worked by hand, the file read back as it was written, and what it measures."""

from __future__ import annotations

import tomllib
from dataclasses import replace

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.collectives import Calibration, CallTable, MeasuredPoint, load_library, machine_numbers
from simfrontier.core.collectives.calibration import calibration_of, merged, to_toml
from simfrontier.core.machine import load_machine
from simfrontier.core.program.ir import CollectiveKind


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


def test_a_calibration_is_read_as_it_was_written() -> None:
    """Words with quotes, numbers of the machine and the library, tables with spread and residual."""
    points = (MeasuredPoint(bytes=1, seconds=1e-30, spread=0.1), MeasuredPoint(bytes=2**62, seconds=1e4))
    several = CallTable(kind="all_to_all", ranks=8, nodes=2, packages=4, points=points, residual=0.25)
    numbers = {"machine": {"device.hbm_bytes_per_s": 3.1e9, 'odd "key"\\': -0.0}, "library": {"ring.base_s": 1e-300}}
    written = replace(calibration(THREE, several, **numbers), title='"quoted"\n\ttitle', how="ä \\ 漢")
    assert calibration_of(tomllib.loads(to_toml(written)), "written") == written


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


# ── several measurements ──


def test_what_was_measured_twice_gets_the_median_and_a_residual() -> None:
    first, second = table((1000, 2.0), (2000, 4.0)), table((1000, 2.2), (2000, 4.0), (4000, 9.0))
    (result,) = merged([first, second])
    assert [(point.bytes, point.seconds) for point in result.points] == [(1000, 2.1), (2000, 4.0), (4000, 9.0)]
    # 0.2 / 2.1 and 0: their median
    assert result.residual == pytest.approx(0.1 / 2.1, rel=1e-12)
