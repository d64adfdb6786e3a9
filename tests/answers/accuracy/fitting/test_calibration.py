"""The calibration that a fit writes, and `simfrontier calibrate` on tables of calls."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from simfrontier.answers.accuracy.fit_outcome import FitOutcome, error_summary
from simfrontier.answers.accuracy.fit_rows import FitRows, cross_validated
from simfrontier.answers.accuracy.least_squares import FitProblem, fit
from simfrontier.answers.accuracy.residual import NotCovered
from simfrontier.core.collectives import load_calibration, load_library, write_calibration
from simfrontier.inputs.measured import CallRow
from tests.answers.accuracy.fitting.rings import RINGS, calls, problem, timed
from tests.answers.accuracy.standins import held as residual
from tests.inputs.measured.tables import write_calls
from tests.invoke import Ran, invoke
from tests.rows import MIB


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


def test_a_library_takes_the_numbers_as_fitted_with_their_interval() -> None:
    library = load_library(str(RINGS), calibration=CALIBRATION)
    assert library.shares["nic"] == CALIBRATION.library["shares.nic"]
    (number,) = [one for one in library.provenance() if one.key == "ring.hop_between_nodes_s"]
    assert (number.value, number.kind) == (CALIBRATION.library["ring.hop_between_nodes_s"], "fitted")
    assert number.source.startswith("fit of rings: frontier, today; 90 % interval 8")
    assert number.source.endswith(" µs")


def test_a_calibration_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    write_calibration(CALIBRATION, tmp_path / "fit.toml")
    assert load_calibration(tmp_path / "fit.toml") == CALIBRATION


SIZES = tuple(2**power * MIB for power in range(0, 10))


def made_up(devices: Iterable[int] = (8, 16, 32, 64), noise: float = 0.03) -> list[CallRow]:
    """Times that RCCL has by its file, but for a slower network."""
    rows = calls(devices, SIZES, library="rccl")
    return timed(rows, load_library("rccl"), {"shares.nic": 0.6}, noise, seed=11)


def fitted(folder: Path, rows: Sequence[CallRow], *options: str) -> Ran:
    done = invoke(
        "calibrate", write_calls(folder / "my.csv", rows), "--out", folder / "fit.toml", "--when", "today", *options
    )
    assert (done.code, done.err) == (0, ""), done
    return done


def test_a_table_is_fitted_to(tmp_path: Path) -> None:
    done = fitted(tmp_path, made_up())
    calibration = load_calibration(tmp_path / "fit.toml")
    low, high = calibration.intervals["shares.nic"]
    assert low <= 0.6 <= high < 0.7
    assert calibration.library["shares.nic"] == pytest.approx(0.6, rel=0.05)
    assert (calibration.where, calibration.title) == ("frontier", "fit of rccl on frontier")
    assert calibration.how == "simfrontier calibrate my.csv --out fit.toml"
    assert calibration.fit is not None and calibration.fit.left_out is not None
    assert calibration.fit.fitted.points == 40
    assert calibration.fit.fitted.mean_abs_error < 0.05 and calibration.fit.left_out.mean_abs_error < 0.1
    assert [place.devices for place in calibration.fit.places] == [8, 16, 32, 64]
    assert calibration.harness == {}  # no known program measured this
    (line,) = [line for line in done.out.splitlines() if line.strip().startswith("shares.nic")]
    assert f" {low:.4g} to {high:.4g} " in line
    assert done.out.endswith(
        f"Written: {tmp_path}/fit.toml; a scenario names it as library.calibration. Plots: {tmp_path}/fit.html\n"
    )


def test_the_same_data_give_the_same_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        fitted(tmp_path / name, made_up())
    for file in ("fit.toml", "fit.html"):
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes()
