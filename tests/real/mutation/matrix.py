"""Every fault in every family, in one process, by the verdict that `simfrontier-real train` prints and exits by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Schedule
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.ranks.session import LoadedSchedule
from simfrontier_real.train.train import TrainingRank, run_in_one_process
from simfrontier_real.train.train_session import unsharded
from simfrontier_real.train.training_settings import Adam, TrainingResult, TrainingSettings
from simfrontier_real.verify.verdict import TrainingVerdict, verdict_of
from tests.real.mutation.cases import EPSILONS
from tests.real.mutation.seams import Fault, Memory, codec_of, put_in

STEPS = 2
SOUND = Fault("none")


@dataclass(frozen=True)
class Outcome:
    """What the verdict said of a fault, and how often the fault changed a value.

    `caught`: exit code 1; `ended`: the run itself ended with exit code 1 and one line; `crashed`: it ended in another
    way; `passed`: exit code 0; `below`: the same, of a fault that is smaller than what is lost on the way; `not
    applicable`: the fault changed nothing, because nothing of its kind is there.
    """

    said: str
    fired: int
    why: str = ""


@cache
def _known(training: TrainingSettings) -> dict[tuple[Any, ...], TrainingResult]:
    """The unsharded models that have been trained so, for all schedules of one model."""
    return {}


class Bench:
    """One schedule, ready to be trained with faults in it; the unsharded model is trained once."""

    def __init__(
        self, name: str, schedule: Schedule, steps: int = STEPS, seed: int = 0, clip: float | None = None
    ) -> None:
        epsilon = EPSILONS.get(name, 1e-5)
        adam = Adam(epsilon=epsilon) if clip is None else Adam(epsilon=epsilon, clip=clip)
        self.training = TrainingSettings(steps=steps, seed=seed, adam=adam)
        self.loaded = LoadedSchedule(
            name=name, path=Path(name), schedule=schedule, programs=programs_of(schedule), digest=""
        )

    def result(self, fault: Fault | None = None) -> tuple[TrainingVerdict, int]:
        """(the verdict, how often the fault changed a value). Raises what the run raises."""
        memories = [Memory()]

        def adjust(rank: TrainingRank) -> None:
            if fault is not None:
                memories.append(put_in(rank, fault))

        loaded = self.loaded
        try:
            with np.errstate(all="ignore"), codec_of(fault or SOUND, memories[0]):
                given, clocks = run_in_one_process(
                    loaded.schedule, self.training, programs=loaded.programs, adjust=adjust
                )
                reference = unsharded(loaded.schedule, self.training, _known(self.training), given[0].skipped)
                return verdict_of(loaded, given, clocks, self.training, reference), sum(each.fired for each in memories)
        finally:
            self.fired = sum(each.fired for each in memories)

    def outcome(self, fault: Fault) -> Outcome:
        """What becomes of a fault."""
        if not any(fault.concerns(op) for program in self.loaded.programs.of_roles for op in program.ops):
            return Outcome("not applicable", 0)
        try:
            result, fired = self.result(fault)
        except SimfrontierError as error:
            return Outcome("ended", self.fired, str(error))
        except Exception as error:
            return Outcome("crashed", self.fired, f"{type(error).__name__}: {error}")
        if not fired:
            return Outcome("not applicable" if result.is_good else "broken", 0)
        if result.is_good:
            nearest = max(result.checks, key=lambda each: each.seen / each.limit)
            ended = "below" if fault.is_small and not result.must_agree else "passed"
            return Outcome(ended, fired, f"nearest to its bound: {nearest}")
        return Outcome("caught", fired, "; ".join(map(str, result.missed)))


def outcomes(bench: Bench, faults: tuple[Fault, ...]) -> Iterator[tuple[Fault, Outcome]]:
    """Every fault in one schedule, which is good without any."""
    sound, _ = bench.result()
    assert sound.is_good, sound.missed
    for fault in faults:
        yield fault, bench.outcome(fault)
