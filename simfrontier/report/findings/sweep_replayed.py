"""Which rows of a sweep were replayed from simulated steps instead of simulated, and the errors that they name."""

from __future__ import annotations

from simfrontier.records import dataclass
from simfrontier.report.findings.sweep_rows import Column, DataSet, Words
from simfrontier.sweep import REPLAY, error_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """`num_rows`: of all rows; `error`: the largest relative error that their notes name, None where none does."""

    num_rows: int
    error: float | None


def replayed_rows(found: DataSet, fidelity: Column) -> Replayed:
    """The rows of a data set that were replayed. `fidelity`: that column of all rows. Raises InputError."""
    import numpy as np

    assert isinstance(fidelity, Words)
    if REPLAY not in fidelity.texts:
        return Replayed(num_rows=0, error=None)
    mine = np.flatnonzero(fidelity.places == fidelity.texts.index(REPLAY))
    note = found.read(["note"], mine)["note"]  # those of others may be as many as there are rows
    assert isinstance(note, Words)
    errors = [error for text in note.texts if (error := error_in(text)) is not None]
    return Replayed(num_rows=mine.size, error=max(errors, default=None))
