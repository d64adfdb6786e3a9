"""Which rows of a sweep were replayed from simulated steps instead of simulated, and the errors that were measured."""

from __future__ import annotations

from simfrontier.records import dataclass
from simfrontier.report.findings.sweep_rows import Column, DataSet, Numbers, Words
from simfrontier.sweep import REPLAY, REPLAY_ERROR


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """`num_rows`: of all rows; `error`: the largest relative error measured beside them, None where none was."""

    num_rows: int
    error: float | None


def replayed_rows(found: DataSet, fidelity: Column) -> Replayed:
    """The rows of a data set that were replayed. `fidelity`: that column of all rows. Raises InputError."""
    import numpy as np

    assert isinstance(fidelity, Words)
    if REPLAY not in fidelity.texts:
        return Replayed(num_rows=0, error=None)
    mine = np.flatnonzero(fidelity.places == fidelity.texts.index(REPLAY))
    errors = found.read([REPLAY_ERROR], mine)[REPLAY_ERROR]
    assert isinstance(errors, Numbers)
    known = errors.values[np.isfinite(errors.values)]
    return Replayed(num_rows=mine.size, error=float(known.max()) if known.size else None)
