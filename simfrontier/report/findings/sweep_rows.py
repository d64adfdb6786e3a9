"""The rows of a sweep as a DataFrame: point, settings and the results that its page shows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from simfrontier.errors import InputError
from simfrontier.report.findings.sweep_columns import ERROR, EXPOSED_SHARE
from simfrontier.sweep import ROWS, read_rows

if TYPE_CHECKING:
    import pandas as pd

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
    rows = read_rows(folder, _READ).to_pandas()
    if rows.empty:
        raise InputError("has no rows; allowed: a folder of simfrontier sweep", where=str(folder / ROWS))
    return _with_exposed_share(rows)


def _with_exposed_share(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows with the share of their step in which communication is exposed; numbers that are not finite are missing."""
    import numpy as np

    floats = rows.select_dtypes("float")
    rows[floats.columns] = floats.where(np.isfinite(floats))
    rows[EXPOSED_SHARE] = rows[_EXPOSED] / rows[STEP]
    return rows.drop(columns=_EXPOSED)
