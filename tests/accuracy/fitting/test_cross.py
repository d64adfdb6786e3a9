"""Cross-validation: what is left out is not seen, in no way; and what cannot be left out is said."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest

from simfrontier.accuracy.fitting import cross
from simfrontier.accuracy.fitting.cross import CrossValidation, cross_validated, places_of
from simfrontier.accuracy.fitting.least_squares import FitProblem, FitResult, fit
from simfrontier.collectives import load_library
from simfrontier.measured import CallRow
from simfrontier.workers import Workers
from tests.accuracy.fitting.rings import DEVICES, TRUE, calls, problem, rings, timed
from tests.measured.tables import shipped
from tests.rows import MIB


def slowed(made: FitProblem, devices: int, factor: float) -> FitProblem:
    """The same points, those on some devices slower."""
    rows = [replace(row, seconds=row.seconds * (factor if row.devices == devices else 1.0)) for row in made.rows]
    return FitProblem(library=made.library, harnesses=(), rows=rows)


def leaves_out(made: FitProblem, validated: Callable[[FitProblem], CrossValidation] = cross_validated) -> None:
    """Assert that the times of a device count do not come into its prediction: three times as long, they are predicted
    just as before, so that the log errors go down by log 3; and the fit is that of the other points alone."""
    before, after = validated(made), validated(slowed(made, 64, 3.0))
    here = np.array([row.devices == 64 for row in made.rows])
    assert after.fits["frontier", 64].values == before.fits["frontier", 64].values
    assert after.errors[here] == pytest.approx(before.errors[here] - math.log(3.0), abs=1e-12)
    assert before.fits["frontier", 64].values == fit(made.only(~here)).values


def test_points_left_out_do_not_come_into_their_prediction() -> None:
    leaves_out(problem(noise=0.05))


def leaking(fitting: FitProblem, whole: FitProblem) -> FitResult:
    """A fit that sees all points."""
    return fit(whole)


def leaking_start(fitting: FitProblem, whole: FitProblem) -> FitResult:
    """A fit to the points that may be seen, whose parameters are then moved a little towards those of all points."""
    honest, all_seen = fit(fitting), fit(whole)
    mixed = {key: value**0.99 * all_seen.values[key] ** 0.01 for key, value in honest.values.items()}
    return replace(honest, values=mixed)


def leaking_point(fitting: FitProblem, whole: FitProblem) -> FitResult:
    """A fit that sees one of the points left out."""
    seen = {(row.devices, row.num_bytes) for row in fitting.rows}
    more = next((row for row in whole.rows if (row.devices, row.num_bytes) not in seen), None)
    return fit(replace_rows(fitting, [*fitting.rows, *([more] if more else [])]))


def replace_rows(made: FitProblem, rows: Iterable[CallRow]) -> FitProblem:
    return FitProblem(library=made.library, harnesses=made.harnesses, rows=list(rows))


@pytest.mark.parametrize("leak", [leaking, leaking_start, leaking_point])
def test_fits_that_leak_are_caught(leak: Callable[[FitProblem, FitProblem], FitResult]) -> None:
    """The test above can fail."""

    def mutant(whole: FitProblem) -> CrossValidation:
        with mock.patch.object(cross, "fit", lambda fitting: leak(fitting, whole)):
            return cross_validated(whole)

    with pytest.raises(AssertionError):
        leaves_out(problem(noise=0.05), mutant)


def test_every_point_is_left_out_once_and_only_with_its_device_count() -> None:
    made = problem(noise=0.02)
    results: list[tuple[str, int]] = []
    crossed = cross_validated(made, results.append)
    assert tuple(results) == places_of(made) == tuple(crossed.fits) == tuple(("frontier", number) for number in DEVICES)
    assert not np.isnan(crossed.errors).any() and crossed.faults == {}
    for place, fitted in crossed.fits.items():
        assert len(fitted.errors) == len([row for row in made.rows if row.devices != place[1]])


def test_two_processes_fit_the_same_to_the_last_bit(two_workers: Workers) -> None:
    """Also where a fit cannot be made: without the six points on 64 devices one is left for three parameters."""
    library = rings()
    few = FitProblem(library=library, harnesses=(), rows=timed([*calls((64,)), *calls((128,), (MIB,))], library, TRUE))
    for made in (problem(noise=0.02), few):
        alone, together = cross_validated(made), cross_validated(made, workers=two_workers)
        assert together.errors.tobytes() == alone.errors.tobytes()
        assert (list(together.fits), together.faults) == (list(alone.fits), alone.faults)
        for place, fitted in alone.fits.items():
            apart = together.fits[place]
            assert (apart.values, apart.intervals, apart.unseen) == (fitted.values, fitted.intervals, fitted.unseen)
            assert apart.errors.tobytes() == fitted.errors.tobytes()


def test_the_same_device_count_of_another_machine_is_another_place() -> None:
    library = rings()
    rows = timed(calls((16, 32)), library, TRUE)
    made = replace_rows(problem(), [*rows, *(replace(row, machine="lumi-g") for row in rows if row.devices == 16)])
    assert places_of(made) == (("frontier", 16), ("frontier", 32), ("lumi-g", 16))


def test_with_one_device_count_there_is_nothing_to_fit_to() -> None:
    crossed = cross_validated(problem(devices=(64,)))
    assert np.isnan(crossed.errors).all() and (crossed.fits, crossed.faults) == ({}, {})


def test_a_device_count_without_which_too_little_is_left_says_so() -> None:
    """Six points on 64 devices and one on 128: without the six one point is left for three parameters."""
    library = rings()
    rows = timed([*calls((64,)), *calls((128,), (MIB,))], library, TRUE)
    crossed = cross_validated(FitProblem(library=library, harnesses=(), rows=rows))
    assert crossed.faults[("frontier", 64)].startswith("fit of library rings: got 1 points for ")
    assert np.isnan(crossed.errors[:6]).all() and not np.isnan(crossed.errors[6])
    assert list(crossed.fits) == [("frontier", 128)]


def test_what_the_other_points_do_not_show_keeps_the_files_value() -> None:
    """Only the large messages on 16 devices are by Simple: without them nothing shows Simple's hops."""
    library = rings()
    rows = timed([*calls((16,)), *calls((64, 128), (2**12, 2**13, 2**14, 2**15))], library, TRUE)
    crossed = cross_validated(FitProblem(library=library, harnesses=(), rows=rows))
    assert "ring.hop_between_nodes_s" in crossed.fits["frontier", 16].unseen
    assert "ring.hop_between_nodes_s" not in crossed.fits["frontier", 64].unseen


def test_a_value_that_was_fitted_to_the_points_left_out_predicts_none_of_them() -> None:
    """RCCL's cap inside a node shows on 8 GCDs only, and the file's comes from these very rows: a fit without them has
    seen them all the same. The same times, not measured so, may be held against the file's value."""
    cap = "ring_caps.ranks_8_packages_4_bytes_per_s"
    measured = [
        row for row in shipped("rccl_frontier", CallRow) if row.devices in (8, 16, 32) and row.num_bytes >= 2**26
    ]
    known = cross_validated(FitProblem(library=load_library("rccl"), harnesses=(), rows=measured))
    here = np.array([row.devices == 8 for row in measured])
    assert np.isnan(known.errors[here]).all() and not np.isnan(known.errors[~here]).any()
    assert known.faults == {
        ("frontier", 8): f"no other points show {cap}, and the file's value was fitted to these",
    }
    others = [replace(row, seconds=1.01 * row.seconds) for row in measured]
    crossed = cross_validated(FitProblem(library=load_library("rccl"), harnesses=(), rows=others))
    assert not np.isnan(crossed.errors).any() and crossed.faults == {}
    assert cap in crossed.fits["frontier", 8].unseen
