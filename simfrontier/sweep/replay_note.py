"""What a row says that was replayed instead of simulated: its fidelity, and the measured error in its note."""

from __future__ import annotations

import re
from typing import Final

REPLAY: Final = "replay"  # the fidelity of a row that was not simulated
_ERROR: Final = re.compile(r"(\d{1,15}(?:\.\d{1,15})?)% off", re.ASCII)


def note_of(num_steps: int, error: float) -> str:
    """The note of a row that was replayed from so many simulated steps. `error`: relative, as measured beside."""
    return f"replayed from {num_steps} simulated steps, {error:.2%} off where that was measured"


def error_in(note: str) -> float | None:
    """The relative error that a note names; None where it names none."""
    found = _ERROR.search(note)
    return None if found is None else float(found[1]) / 100.0
