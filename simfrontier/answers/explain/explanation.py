"""What an explanation holds: where a step's time goes, what would help, and how plans differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simfrontier.answers.explain.changes import Kind
from simfrontier.answers.explain.waits import Waits
from simfrontier.answers.step import CriticalPath, PartDifference, TimeSpent, part_words
from simfrontier.base.errors import SimfrontierError
from simfrontier.core.engine import Fidelity

if TYPE_CHECKING:
    import pandas as pd


class DoesNotFitError(SimfrontierError):
    """A plan that is to be explained does not fit into memory: `what` it needs."""

    def __init__(self, what: str, *, where: str) -> None:
        super().__init__(f"{where}: {what}; nothing to explain")
        self.what = what


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
    """Another plan at the same size: where its step's time goes, the parts of the first plan's step minus its own
    (seconds that sum to the difference of the steps), and a sentence. `samples`: sequences of one of its steps."""

    plan: str
    time: TimeSpent
    differences: tuple[PartDifference, ...]
    sentence: str
    samples: int

    @property
    def step_s(self) -> float:
        return self.time.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPlan:
    """A plan of the scenario, where its step's time goes, and how it compares with the next best (None: the last)."""

    plan: str
    time: TimeSpent
    samples: int
    next: PlanComparison | None = None

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.time.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a plan is as fast as it is: where its step's time goes (`time`), the critical path through it (`path`),
    `changes` that might help (what saves most first), and what makes it differ from another plan: the one that was
    asked for, or the best of the others (None: there is no other).

    `waits`: which ranks waited for which others to arrive at a call. `note`: what was simplified in the step, "" where
    nothing was.

    `ranking`: where no plan was asked for, all that fit, by sequences per second, each against the next best;
    `left_out`: names of plans that were not compared, and why. `samples`: sequences of one step. `given`: settings that
    the scenario was loaded with; `kept`: settings that stand for what a search of the plan has found, which all changes
    keep (to repeat one, give `kept` and then its own).
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
    time: TimeSpent
    path: CriticalPath
    waits: Waits
    note: str
    changes: tuple[TriedChange, ...]
    against: PlanComparison | None
    ranking: tuple[RankedPlan, ...]
    left_out: tuple[tuple[str, str], ...]
    given: tuple[str, ...]
    kept: tuple[str, ...]

    def frame(self) -> pd.DataFrame:
        """Where the step's time goes, the largest part first: what it is spent on, kind, axes, level, seconds, share of
        the step, number of ops, and in words."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "spent": part.spent,
                    "kind": part.kind,
                    "axes": "+".join(part.axes),
                    "level": part.level,
                    "seconds": part.seconds,
                    "share": part.seconds / self.step_s,
                    "calls": part.calls,
                    "words": part_words(part.spent, part.kind, part.axes, part.level),
                }
                for part in self.time.parts
            ]
        )

    def changes_frame(self) -> pd.DataFrame:
        """What would help, what saves most first; `settings` as they are given to `--set`, one after the other."""
        import pandas as pd

        columns = ("label", "kind", "settings", "step_s", "saved_s", "share", "peak_bytes", "fits", "note")
        rows = [{key: getattr(change, key) for key in columns} for change in self.changes]
        return pd.DataFrame([{**row, "settings": " ".join(row["settings"])} for row in rows], columns=list(columns))

    def differences_frame(self) -> pd.DataFrame:
        """The parts of this plan's step minus those of the other's, the largest difference first; empty where there is
        no other plan."""
        import pandas as pd

        columns = ("spent", "kind", "axes", "level", "seconds", "a_s", "b_s", "a_calls", "b_calls")
        differences = () if self.against is None else self.against.differences
        rows = [{key: getattr(each, key) for key in columns} for each in differences]
        return pd.DataFrame([{**row, "axes": "+".join(row["axes"])} for row in rows], columns=list(columns))
