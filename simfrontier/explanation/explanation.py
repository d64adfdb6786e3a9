"""What an explanation holds: the critical path, what would help, and how another plan differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simfrontier.analysis import CriticalPath, PathDifference, part_words
from simfrontier.errors import SimfrontierError
from simfrontier.explanation.changes import Kind
from simfrontier.records import dataclass
from simfrontier.simulation import Fidelity

if TYPE_CHECKING:
    import pandas as pd


class DoesNotFitError(SimfrontierError):
    """A plan that is to be explained does not fit into memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedChange:
    """Something that might help, simulated.

    `settings`: what to give to `--set`, each text once. `step_s`: the step with it, in seconds; `saved_s`: how much
    shorter that is (negative: longer), `share`: of the step without it. `peak_bytes` of memory on the fullest rank, and
    whether that `fits`. `note`: what the change is, or what it costs besides.
    """

    label: str
    kind: Kind
    settings: tuple[str, ...]
    step_s: float
    saved_s: float
    share: float
    peak_bytes: int
    fits: bool
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanComparison:
    """Another plan at the same size: its critical path, the parts of the explained plan's path minus its own (seconds
    that sum to the difference of the steps), and a sentence. `samples`: sequences of one of its steps."""

    plan: str
    path: CriticalPath
    differences: tuple[PathDifference, ...]
    sentence: str
    samples: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a plan is as fast as it is: its `path` through one step, `changes` that might help (what saves most first),
    and, where another plan was named, what makes it differ.

    `samples`: sequences of one step. `given`: settings that the scenario was loaded with; `kept`: settings that stand
    for what a search of the plan has found, which all changes keep (to repeat one, give `kept` and then its own).
    """

    title: str
    scenario: str
    plan: str
    devices: int
    fidelity: Fidelity
    machine: str
    device_word: str
    step_s: float
    samples: int
    path: CriticalPath
    changes: tuple[TriedChange, ...]
    against: PlanComparison | None
    given: tuple[str, ...]
    kept: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """The parts of the critical path, the largest first: kind, axes, level, seconds, share of the step, seconds of
        sharing, number of ops, and in words."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "kind": part.kind,
                    "axes": "+".join(part.axes),
                    "level": part.level,
                    "seconds": part.seconds,
                    "share": part.seconds / self.step_s,
                    "sharing_s": part.sharing_s,
                    "calls": part.calls,
                    "words": part_words(part.kind, part.axes, part.level),
                }
                for part in self.path.parts()
            ]
        )

    def changes_frame(self) -> pd.DataFrame:
        """What would help, what saves most first; `settings` as they are given to `--set`, one after the other."""
        import pandas as pd

        columns = ("label", "kind", "settings", "step_s", "saved_s", "share", "peak_bytes", "fits", "note")
        rows = [{key: getattr(change, key) for key in columns} for change in self.changes]
        return pd.DataFrame([{**row, "settings": " ".join(row["settings"])} for row in rows], columns=list(columns))

    def differences_frame(self) -> pd.DataFrame:
        """The parts of this plan's path minus those of the other's, the largest difference first; empty where no other
        plan was named."""
        import pandas as pd

        columns = ("kind", "axes", "level", "seconds", "a_s", "b_s", "a_calls", "b_calls")
        differences = () if self.against is None else self.against.differences
        rows = [{key: getattr(each, key) for key in columns} for each in differences]
        return pd.DataFrame([{**row, "axes": "+".join(row["axes"])} for row in rows], columns=list(columns))
