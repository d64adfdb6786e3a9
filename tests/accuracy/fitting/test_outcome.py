"""What a fit comes to: errors worked by hand, and the calibration file that says them and is read back as it was."""

from __future__ import annotations

import math
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from simfrontier.accuracy.fitting.cross import cross_validated
from simfrontier.accuracy.fitting.least_squares import FitProblem, fit
from simfrontier.accuracy.fitting.outcome import FitOutcome, error_summary
from simfrontier.accuracy.fitting.rows import FitRows
from simfrontier.accuracy.residual import NotCovered
from simfrontier.collectives import Calibration, load_calibration, load_library, write_calibration
from simfrontier.collectives.calibration import RESIDUAL, calibration_of, to_toml
from simfrontier.collectives.fit_record import ErrorSummary, FitRecord, LeftOutDevices
from simfrontier.errors import InputError
from simfrontier.report.phrases import percent
from simfrontier.report.render import said
from tests.accuracy.fitting.rings import RINGS, TRUE, problem
from tests.accuracy.standins import held as residual
from tests.facts import says


def outcome(made: FitProblem) -> FitOutcome:
    """A fit to made-up points, of the library of that name."""
    chosen = FitRows(
        library="rings", machines=("frontier",), rows=tuple(made.rows), set_aside={NotCovered(reason="small"): 3}
    )
    return FitOutcome(chosen=chosen, problem=made, fitted=fit(made), cross_validation=cross_validated(made))


DONE = outcome(problem(noise=0.05, seed=5))
CALIBRATION = DONE.calibration("fit of rings", "frontier", "today", "by hand")


def test_errors_by_hand() -> None:
    """Predictions of 1.1, 1, 0.8 and 1.5 times the measured: 10, 0, 20 and 50 %, mean 20 %.

    The 90th percentile lies at place 0.9 · 3 = 2.7 of 0, 10, 20, 50: 20 + 0.7 · 30 = 41 %.
    """
    far = error_summary([residual(1.0, made) for made in (1.1, 1.0, 0.8, 1.5)], num_parameters=2)
    assert far.points == 4
    assert far.mean_abs_error == pytest.approx(0.2)
    assert far.p90_abs_error == pytest.approx(0.41)
    assert far.worst_abs_error == pytest.approx(0.5)
    squares = math.log(1.1) ** 2 + math.log(0.8) ** 2 + math.log(1.5) ** 2
    assert far.residual_sd == pytest.approx(math.sqrt(squares / 2))  # 4 points less 2 parameters


def test_the_record_says_points_parameters_and_places() -> None:
    record = DONE.record
    assert (record.library, record.machines, record.parameters, record.unseen) == (
        "rings",
        ("frontier",),
        3,
        ("tree.hop_between_nodes_s",),
    )
    assert record.fitted.points == 30 and record.left_out is not None and record.left_out.points == 30
    assert [(place.machine, place.devices, place.far.points) for place in record.places] == [
        ("frontier", devices, 6) for devices in (16, 32, 64, 128, 256)
    ]
    assert record.model_sd == max(record.left_out.residual_sd, record.fitted.residual_sd)
    assert record.fitted.residual_sd == pytest.approx(0.05, rel=0.35)


def test_the_points_left_out_that_the_interval_covers_are_counted() -> None:
    """Log errors of 1, -1, 2 and -10 times some sd: theirs is 5.1 sd, and 1.645 times that covers all but the 10."""
    sd = DONE.record.model_sd
    errors = np.array([1.0, -1.0, 2.0, -10.0] * 7 + [np.nan, np.nan]) * sd
    crossed = replace(DONE.cross_validation, errors=errors)
    made = replace(DONE, cross_validation=crossed)
    spread = made.record.model_sd / sd
    assert spread == pytest.approx(math.sqrt((1 + 1 + 4 + 100) / 4))  # so that 2 lies within, and 10 does not
    assert made.covered == 0.75
    assert outcome(problem(devices=(64,))).covered is None


def test_without_left_out_points_the_record_has_the_fitted_ones() -> None:
    record = outcome(problem(noise=0.05, devices=(64,))).record
    assert (record.left_out, record.places) == (None, ())
    assert record.model_sd == record.fitted.residual_sd


def test_parameters_that_no_point_shows_come_last_and_have_no_value() -> None:
    *shown, last = DONE.parameters
    assert [one.key for one in shown] == list(TRUE)
    assert all(one.value is not None and one.interval is not None for one in shown)
    assert (last.key, last.value, last.interval, last.file_value) == ("tree.hop_between_nodes_s", None, None, 100e-6)
    assert last.unit == "s"


def test_the_calibration_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_calibration(CALIBRATION, tmp_path / "fit.toml")
    assert load_calibration(tmp_path / "fit.toml") == CALIBRATION
    assert set(CALIBRATION.library) == set(CALIBRATION.intervals) == set(TRUE)  # rings has no residual to set


def test_a_library_takes_the_numbers_as_fitted_with_their_interval() -> None:
    library = load_library(str(RINGS), calibration=CALIBRATION)
    assert library.link_shares["nic"] == CALIBRATION.library["shares.nic"]
    (number,) = [one for one in library.provenance() if one.key == "ring.hop_between_nodes_s"]
    assert (number.value, number.kind) == (CALIBRATION.library["ring.hop_between_nodes_s"], "fitted")
    assert number.source.startswith("fit of rings: frontier, today; 90 % interval 8")
    assert number.source.endswith(" us")


def test_measured_numbers_stay_measured() -> None:
    """A calibration of numbers that no fit made says so, beside fitted ones too."""
    mixed = replace(CALIBRATION, library={**CALIBRATION.library, "ring.base_s": 1e-5})
    library = load_library(str(RINGS), calibration=mixed)
    kinds = {one.key: (one.kind, one.source) for one in library.provenance()}
    assert kinds["ring.base_s"] == ("measured", "fit of rings: frontier, today")


def test_a_library_with_a_residual_takes_that_of_the_fit() -> None:
    rccl = load_library("rccl")
    assert rccl.residual is not None
    done = replace(DONE, problem=replace_library(DONE.problem, rccl), chosen=replace(DONE.chosen, library="rccl"))
    done = with_spread(done, 2 * rccl.residual.model_sd)
    calibration = done.calibration("t", "w", "n", "h")
    assert calibration.library[RESIDUAL] == done.record.model_sd > 1.9 * rccl.residual.model_sd
    assert calibration.kind_of(RESIDUAL) == "fitted"
    changed = load_library("rccl", calibration=calibration).residual
    assert changed is not None and changed.model_sd == done.record.model_sd


def with_spread(done: FitOutcome, spread: float) -> FitOutcome:
    """The same with left-out points that lie so far off."""
    errors = spread * np.where(np.arange(len(done.problem.rows)) % 2, 1.0, -1.0)
    return replace(done, cross_validation=replace(done.cross_validation, errors=errors))


def test_error_bars_never_become_narrower_than_the_shipped_ones() -> None:
    """Half the library's spread, and then points of one number of devices, of which none can be left out."""
    rccl = load_library("rccl")
    assert rccl.residual is not None
    shipped_sd = rccl.residual.model_sd
    one = outcome(problem(noise=0.3, devices=(64,)))
    for done in (with_spread(DONE, shipped_sd / 2), one):
        fitted = replace(done.fitted, errors=0.01 * done.fitted.errors)
        of_rccl = replace(done, problem=replace_library(done.problem, rccl), fitted=fitted)
        assert of_rccl.model_sd == shipped_sd
        written = of_rccl.calibration("t", "w", "n", "h").library.get(RESIDUAL)
        assert written == (None if done is one else shipped_sd)


def test_a_fit_that_is_worse_than_the_library_as_it_is_says_so() -> None:
    """Left-out points 1 % off, and 100 times as far as the library's own numbers are."""
    shipped = error_summary(DONE.shipped).mean_abs_error
    assert with_spread(DONE, 0.01).worse is None and shipped > 0.05
    worse = with_spread(DONE, math.log1p(2 * shipped))
    found = worse.worse
    assert found is not None and found.fit > found.shipped == pytest.approx(shipped)
    assert (found.num_known, found.num_points) == (0, len(DONE.problem.rows))
    assert says(said("calibrate", "findings", worse)[0], "Warning", percent(shipped))
    assert outcome(problem(devices=(64,))).worse is None


def test_errors_of_large_messages_among_several_nodes_stand_apart() -> None:
    """Every row of the table of errors by its own points: 16 GCDs and more are several nodes, one of 8 is not."""
    lines = {(one.by, one.large): one.far for one in DONE.lines if not one.devices}
    large = [row for row in DONE.problem.rows if row.num_bytes >= 4 * 2**20 and row.devices > 8]
    assert lines["left out", True].points == lines["shipped", True].points == len(large) < len(DONE.problem.rows)
    assert lines["shipped", False] == error_summary(DONE.shipped)


def replace_library(made: FitProblem, library: object) -> FitProblem:
    from simfrontier.collectives import Library

    assert isinstance(library, Library)
    return FitProblem(library=library, harnesses=(), rows=made.rows)


def test_numbers_fitted_to_another_library_are_refused() -> None:
    with pytest.raises(InputError) as raised:
        load_library("rccl", calibration=CALIBRATION)
    assert str(raised.value) == (
        "library rccl: the calibration was fitted to rings, allowed: a fit to rccl, or library rings"
    )


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"shares.nic" = [', '"shares.nik" = [', 'intervals."shares.nik": no such number in the file, did you mean'),
        ("[intervals]", '[intervals]\n"shares.n" = [1.0]', "intervals.shares.n: got [1.0], allowed: "),
        ("parameters = 3", "parameters = 0", "fit.parameters: got 0, allowed: at least 1"),
        ("machines = [", "machine = [", 'fit.machine: unknown key; did you mean "machines"?'),
        ("points = 6,", "points = -6,", "fit.places[0].far.points: got -6, allowed: at least 1"),
    ],
)
def test_each_fault_of_a_fits_file_is_one_line(old: str, new: str, message: str) -> None:
    text = to_toml(CALIBRATION)
    assert old in text
    with pytest.raises(InputError) as raised:
        calibration_of(tomllib.loads(text.replace(old, new, 1)), "fit.toml")
    assert str(raised.value).startswith(f"fit.toml: {message}"), raised.value
    assert "\n" not in str(raised.value)


def test_an_interval_beside_its_number_is_refused() -> None:
    wrong = replace(CALIBRATION, intervals={**CALIBRATION.intervals, "shares.nic": (0.1, 0.2)})
    with pytest.raises(InputError, match=r'intervals."shares.nic": got 0\.1 to 0\.2, allowed: around 0\.'):
        calibration_of(tomllib.loads(to_toml(wrong)), "fit.toml")


# ── any record ──

shares = st.floats(0.0, 50.0)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda text: text.strip() != "")
fars = st.builds(
    ErrorSummary,
    points=st.integers(1, 10**6),
    mean_abs_error=shares,
    p90_abs_error=shares,
    worst_abs_error=shares,
    residual_sd=shares,
)

places = st.builds(
    LeftOutDevices, machine=names, devices=st.integers(2, 10**6), far=fars, kept=st.lists(names).map(tuple)
)
records = st.builds(
    FitRecord,
    library=names,
    machines=st.lists(names, min_size=1).map(tuple),
    parameters=st.integers(1, 99),
    fitted=fars,
    left_out=st.none() | fars,
    places=st.lists(places, max_size=3).map(tuple),
    unseen=st.lists(names).map(tuple),
)
positive = st.floats(1e-9, 1e12)


@given(records, st.dictionaries(names, positive, max_size=3), st.dictionaries(names, positive, max_size=3))
def test_any_fit_is_read_back_as_it_was_written(
    record: FitRecord, library: dict[str, float], harness: dict[str, float]
) -> None:
    numbers = {**library, **{f"harness.{key}": value for key, value in harness.items()}}
    made = Calibration(
        title="t",
        where="w",
        when="n",
        how="h",
        library=library,
        harness=harness,
        intervals={key: (value / 2, value * 2) for key, value in numbers.items()},
        fit=record,
    )
    assert calibration_of(tomllib.loads(to_toml(made)), "any.toml") == made
