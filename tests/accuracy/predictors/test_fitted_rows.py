"""Which rows the shipped parameters were fitted to: by what was measured, wherever the row stands."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.accuracy.predictors.fitted_rows import FITS, fitted_rows, was_fitted
from simfrontier.measured import CallRow, load_table
from simfrontier.measured.place import RowPlace


@pytest.mark.parametrize("library", sorted(FITS))
def test_a_fit_is_to_rows_of_its_library_of_its_sizes_and_to_no_fault(library: str) -> None:
    rows, tables = fitted_rows(library), {name: load_table(name) for name in FITS[library]}
    assert rows and all(map(was_fitted, rows))
    for row in rows:
        [name] = [name for name, table in tables.items() if row in table.rows]
        assert row.library == library and row.num_bytes >= FITS[library][name]
        assert tables[name].pathology_of(row) is None


def test_a_row_out_of_another_file_is_known_by_what_it_measured() -> None:
    row: CallRow = fitted_rows("rccl")[0]
    assert was_fitted(replace(row, place=RowPlace("my.csv", 2), source="me"))
    assert not was_fitted(replace(row, seconds=1.001 * row.seconds))
    assert not was_fitted(replace(row, devices=2 * row.devices))
    assert not was_fitted(replace(row, library="gloo"))
