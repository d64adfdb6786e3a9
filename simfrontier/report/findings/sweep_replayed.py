"""Which rows of a sweep were replayed from simulated steps instead of simulated, and the errors that they name."""

from __future__ import annotations

from simfrontier.records import dataclass
from simfrontier.report.findings.sweep_rows import Rows, Words
from simfrontier.sweep import REPLAY, error_in


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """`num_rows`: of all rows; `error`: the largest relative error that their notes name, None where none does."""

    num_rows: int
    error: float | None


def replayed_rows(rows: Rows) -> Replayed:
    """The rows that were replayed. `rows`: with the columns fidelity and note."""
    import numpy as np

    fidelity, note = rows["fidelity"], rows["note"]
    assert isinstance(fidelity, Words) and isinstance(note, Words)
    if REPLAY not in fidelity.texts:
        return Replayed(num_rows=0, error=None)
    is_mine = fidelity.places == fidelity.texts.index(REPLAY)
    notes = np.unique(note.places[is_mine & (note.places >= 0)])
    errors = [error for place in notes if (error := error_in(note.texts[place])) is not None]
    return Replayed(num_rows=int(np.count_nonzero(is_mine)), error=max(errors, default=None))
