"""The rows of a sweep as a DataFrame: point, settings and the results that its page shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from simfrontier.errors import InputError
from simfrontier.report.findings.sweep_columns import ERROR, EXPOSED_SHARE
from simfrontier.sweep import AXIS, ROWS, parts_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

STEP: Final = "step_time_s"
RATE: Final = "tokens_per_s"  # what plans are ranked by: an axis may change the work of a step
MEMORY: Final = "peak_memory_bytes"
TFLOPS: Final = "tflops_per_device"
RESULTS_SHOWN: Final = (STEP, RATE, TFLOPS, EXPOSED_SHARE, MEMORY)
_EXPOSED: Final = "exposed_comm_s"
_OF_ROW: Final = ("point", "scenario", "plan", "devices", "fits", "fidelity", ERROR)
_READ: Final = (*_OF_ROW, STEP, RATE, TFLOPS, _EXPOSED, MEMORY)


def swept_rows(folder: Path) -> pd.DataFrame:
    """Return the rows of a data set in the order of its points: their point and plan, a column for each axis, and
    `RESULTS_SHOWN`; NaN or None where a row has no value. Raises InputError where there are none, or they cannot be
    read."""
    import pyarrow as pa

    where = str(folder / ROWS)
    try:
        rows = pa.concat_tables([_selected(table) for table in parts_of(folder)]).to_pandas()
    except (pa.ArrowException, KeyError, ValueError) as error:
        raise InputError(f"cannot be read: {str(error).partition(chr(10))[0][:200]}", where=where) from None
    if rows.empty:
        raise InputError("has no rows; allowed: a folder of simfrontier sweep", where=where)
    return _with_exposed_share(rows)


def _selected(table: pa.Table) -> Any:
    """The columns that are read; of a data set of a million rows all others take gigabytes."""
    return table.select([*_READ, *(name for name in table.column_names if name.startswith(AXIS))])


def _with_exposed_share(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the share of their step in which communication is exposed; numbers that are not finite are missing."""
    import numpy as np

    floats = rows.select_dtypes("float")
    rows[floats.columns] = floats.where(np.isfinite(floats))
    rows[EXPOSED_SHARE] = rows[_EXPOSED] / rows[STEP]
    return rows.drop(columns=_EXPOSED)
