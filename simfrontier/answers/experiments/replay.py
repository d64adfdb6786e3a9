"""Rows of many settings that differ in numbers of machine or library alone, by a replay of one simulated step."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any, Final

import numpy as np

from simfrontier.answers.experiments.digests import Keyed, Setting, alike, is_number
from simfrontier.answers.experiments.row_runner import Row, RowRunner
from simfrontier.answers.study import Answers, WhatIfs, outcome_of
from simfrontier.base.arrays import Floats
from simfrontier.base.errors import SimfrontierError
from simfrontier.core.engine import REPLAY_LARGEST_ERROR, REPLAY_MEAN_ERROR, Fidelity
from simfrontier.inputs.scenario import Scenario

FEWEST: Final = 24  # settings of a question: fewer take no time worth an error
MOST: Final = 4096  # settings of a question
MOST_CONFIRMED: Final = 8  # settings of a question that are simulated because they seem to be the fastest of a plan
NOT_REPLAYED: Final = ("machine.overrides.device.hbm_bytes",)  # which decides what fits
REPLAY: Final = "replay"  # the fidelity of a row that was not simulated
OFF_BY: Final = (
    f"off by {100 * REPLAY_MEAN_ERROR:.1f} % on average and {100 * REPLAY_LARGEST_ERROR:.0f} % at most "
    "where that was measured"
)
STEP: Final = "step_time_s"
PER_STEP: Final = ("tflops_per_device", "tokens_per_s", "tokens_per_s_per_device")
KEPT: Final = (
    *("scenario", "plan", "devices", "nodes", "micro_batch", "grad_accum", "fits", "schedule_digest", "mesh", "stack"),
)
REPLAYED: Final = (*KEPT, STEP, *PER_STEP)  # columns that a replayed row has; all else takes a simulated step


def is_varied(key: str, value: Any) -> bool:
    """Return whether settings that differ in that change may be answered together."""
    return is_number(key, value) and key not in NOT_REPLAYED


def questions(settings: Iterable[Keyed]) -> list[tuple[Keyed, ...]]:
    """Return settings that differ in numbers of machine or library alone, in their order, up to `MOST` together."""
    groups = alike(settings, is_varied)
    return [tuple(group[first : first + MOST]) for group in groups for first in range(0, len(group), MOST)]


def question_digests(settings: Sequence[Keyed]) -> list[str]:
    """Return the digests of settings that are replayed: an answer depends on all settings of its question."""
    digests: dict[str, str] = {}
    for asked in questions(dict(settings).items()):
        whole = "".join(digest for digest, _ in asked)
        digests |= {digest: sha256(f"{digest}{whole}".encode()).hexdigest() for digest, _ in asked}
    return [digests[digest] for digest, _ in settings]


@dataclass
class ReplayRunner:
    """Answers questions, and simulates the settings of which a replay is no answer."""

    simulator: RowRunner

    def rows_of(self, settings: Sequence[Setting]) -> list[list[Row]]:
        """The rows of each setting of a question, as `RowRunner.rows_of`; those that were replayed have the step time
        and what follows from it alone, with `fidelity` "replay". The fastest of each plan at each size is simulated:
        what is shown as the best is exact, unless many are as fast."""
        if len(settings) < FEWEST:
            return [self.simulator.rows_of(setting) for setting in settings]
        first = settings[0].changes
        varied = [key for key in first if is_varied(key, first[key]) and len({s.changes[key] for s in settings}) > 1]
        others = {key: value for key, value in first.items() if key not in varied}
        try:
            scenario = replace(settings[0], changes=others).scenario()
        except SimfrontierError:
            return [self.simulator.rows_of(setting) for setting in settings]
        axes = {key: np.array([float(setting.changes[key]) for setting in settings]) for key in varied}
        fidelity: Fidelity = settings[0].fidelity or scenario.file.run.fidelity  # type: ignore[assignment]
        found = {
            (plan, devices): self._answers(scenario, plan, devices, fidelity, axes)
            for plan in scenario.plans
            for devices in scenario.file.run.devices
        }
        answered = [each for each in found.values() if each is not None]
        if len(answered) < len(found):
            return [self.simulator.rows_of(setting) for setting in settings]
        simulated: dict[int, list[Row]] = {}
        for place, setting in enumerate(settings):
            if any(each.answers.is_unlike[place] for each in answered):
                simulated[place] = self.simulator.rows_of(setting)
        for (plan, devices), each in zip(found, answered, strict=True):
            for place in each.fastest(plan, devices, simulated):
                simulated[place] = self.simulator.rows_of(settings[place])
        return [
            simulated[place] if place in simulated else [each.row(place) for each in answered]
            for place in range(len(settings))
        ]

    def _answers(
        self, scenario: Scenario, plan: str, devices: int, fidelity: Fidelity, axes: Mapping[str, Floats]
    ) -> _Answered | None:
        """None where all points have to be simulated."""
        try:
            if not axes or plan in scenario.at(devices).searches:
                return None
            asked = WhatIfs.of(scenario, plan, devices, fidelity, self.simulator.schedule_cache)
            row = outcome_of(scenario, scenario.case(plan, devices), asked.built, asked.step).row
            return _Answered(dict(row), asked.step_s(axes)) if row["fits"] else None
        except SimfrontierError:
            return None


@dataclass(frozen=True, eq=False)
class _Answered:
    """The row of the scenario as it is, and answers to all points."""

    base: Row
    answers: Answers

    def fastest(self, plan: str, devices: int, simulated: Mapping[int, Sequence[Row]]) -> Iterator[int]:
        """The points that seem to be the fastest, one after the other, until that one is among those that are
        simulated, or enough are; each has to be there before the next is asked for."""
        steps = self.answers.step_s.copy()
        exact: set[int] = set()
        for _ in range(MOST_CONFIRMED):
            for place in simulated.keys() - exact:
                steps[place] = _step_s(simulated[place], plan, devices)
            exact |= simulated.keys()
            place = int(np.argmin(steps))
            if place in exact:
                return
            yield place

    def row(self, place: int) -> Row:
        """The replayed row of a point."""
        base, step_s = self.base, float(self.answers.step_s[place])
        row = {column: base[column] for column in KEPT}
        row |= {column: base[column] * base[STEP] / step_s for column in PER_STEP}
        return row | {
            STEP: step_s,
            "fidelity": REPLAY,
            "note": "; ".join(filter(None, (f"replayed from one simulated step; replays are {OFF_BY}", base["note"]))),
        }


def _step_s(rows: Sequence[Row], plan: str, devices: int) -> float:
    """The step time of a plan at a size; endless where it has none."""
    times = [row[STEP] for row in rows if row.get("plan") == plan and row.get("devices") == devices and row.get(STEP)]
    return times[0] if times else math.inf
