"""Known reasons why predictions of published runs are off: `causes.toml`."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Annotated, Final

from pydantic import Field

from simfrontier.answers.accuracy.published_runs.rules import Matched
from simfrontier.answers.accuracy.published_runs.table import Run
from simfrontier.base.io import Strict, Text, read_toml, typed

CAUSES: Final = Path(__file__).parent / "causes.toml"


class Cause(Matched):
    """The reason `why` runs are off that it matches."""

    why: Text


class CausesFile(Strict):
    causes: Annotated[list[Cause], Field(min_length=1)]


@cache
def load_causes() -> tuple[Cause, ...]:
    """Return the shipped causes. Raises InputError."""
    return tuple(typed(read_toml(CAUSES, "causes"), CausesFile, str(CAUSES)).causes)


def causes_of(run: Run) -> tuple[str, ...]:
    """Return the known reasons why the prediction of a run is off; empty where none is known."""
    return tuple(cause.why for cause in load_causes() if cause.found(run) is not None)
