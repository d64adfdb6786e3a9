"""Which rows the shipped parameters were fitted to: by what was measured, wherever the row stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.measured import CallRow
from simfrontier.validation.fits import FITS, fitted_rows, was_fitted


@pytest.mark.parametrize("library", sorted(FITS))
def test_every_row_of_a_fit_was_fitted(library: str) -> None:
    assert all(map(was_fitted, fitted_rows(library)))


def test_a_row_out_of_another_file_is_known_by_what_it_measured() -> None:
    row: CallRow = fitted_rows("rccl")[0]
    assert was_fitted(replace(row, place="my.csv line 2", source="me"))
    assert not was_fitted(replace(row, seconds=1.001 * row.seconds))
    assert not was_fitted(replace(row, devices=2 * row.devices))
    assert not was_fitted(replace(row, library="gloo"))
