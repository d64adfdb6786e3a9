"""Losses of training with compressed messages: curves read from a file, and how far policies end from a baseline."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.errors import InputError, nearest
from simfrontier.limits import LARGEST
from simfrontier.measured import Line, read_lines
from simfrontier.plan import compression_of

COLUMNS: Final = ("plan", "compression", "seed", "step", "loss")
PER_HOP: Final = " per hop"  # behind the policy of a plan that codes every message between two ranks by itself
NUM_SD: Final = 2.0  # standard deviations to either side of the baseline that its band takes in


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingRun:
    """One training: the plan and policy as the file calls them, its seed, and a loss for each step; nan or inf where it
    diverged."""

    plan: str
    compression: str
    seed: int
    losses: tuple[float, ...]

    @property
    def policy(self) -> str:
        return policy_of(self.compression)


@dataclass(frozen=True, kw_only=True)
class LossCurves:
    """Runs of the same steps. A policy may be given by any text that means its codecs.

    `baseline`: the policy that others are held against, seed by seed; `last`: steps at the end that are averaged for a
    final loss; `source`: where the runs are from.
    """

    runs: tuple[TrainingRun, ...]
    steps: tuple[int, ...]
    baseline: str
    last: int
    source: str

    @cached_property
    def policies(self) -> tuple[str, ...]:
        """The texts of the policies, as first written in the file."""
        first: dict[str, str] = {}
        for run in self.runs:
            first.setdefault(run.policy, run.compression)
        return tuple(first.values())

    def of(self, text: str) -> tuple[TrainingRun, ...]:
        """The runs of a policy, by seed; none where the file has none."""
        wanted = policy_of(text)
        return tuple(sorted((run for run in self.runs if run.policy == wanted), key=lambda run: run.seed))

    def curve(self, text: str) -> Floats:
        """Losses of a policy by step, the mean over seeds."""
        return np.asarray(_rows(self.of(text)).mean(axis=0))

    @property
    def window(self) -> int:
        """Steps that are averaged for a point of a smoothed curve: ten, or fewer where a final loss is of fewer."""
        return min(10, self.last)

    def smoothed(self, text: str) -> Floats:
        """Losses of a policy by step, each the mean of the `window` steps up to it and over seeds; nan before these."""
        return np.asarray(self._smoothed(self.of(text)).mean(axis=0))

    def finals(self, text: str) -> dict[int, float]:
        """The final loss of every seed of a policy."""
        return {run.seed: float(np.mean(run.losses[-self.last :])) for run in self.of(text)}

    def distance(self, text: str) -> float | None:
        """How far a policy ends above the baseline, in the mean over its seeds, each against the baseline of the same
        seed; not finite where a run diverged, None where the file has no runs of the policy."""
        finals, base = self.finals(text), self.finals(self.baseline)
        return sum(own - base[seed] for seed, own in finals.items()) / len(finals) if finals else None

    def distances(self, text: str) -> Floats:
        """The same for every step, of smoothed losses."""
        runs, base = self.of(text), {run.seed: run for run in self.of(self.baseline)}
        with np.errstate(invalid="ignore"):
            apart: Floats = self._smoothed(runs) - self._smoothed([base[run.seed] for run in runs])
            return np.asarray(apart.mean(axis=0))

    @property
    def half_band(self) -> float | None:
        """Two standard deviations of the baseline's final losses over seeds; None where one seed says nothing of it."""
        finals = list(self.finals(self.baseline).values())
        return NUM_SD * float(np.std(finals, ddof=1)) if len(finals) > 1 else None

    @property
    def band(self) -> tuple[float, float] | None:
        """The mean of the baseline's final losses, less and plus half the band."""
        half, finals = self.half_band, list(self.finals(self.baseline).values())
        mean = float(np.mean(finals))
        return None if half is None else (mean - half, mean + half)

    @property
    def half_bands(self) -> Floats | None:
        """The same for every step, of smoothed losses."""
        rows = self._smoothed(self.of(self.baseline))
        with np.errstate(invalid="ignore"):  # of what was not finite on the way
            return NUM_SD * np.asarray(np.std(rows, axis=0, ddof=1)) if len(rows) > 1 else None

    def stays(self, text: str) -> bool | None:
        """Whether a policy ends within the band, its distance being no more than half of it; None where there is no
        band, or no runs of the policy."""
        half, distance = self.half_band, self.distance(text)
        return None if half is None or distance is None else abs(distance) <= half

    def _smoothed(self, runs: Iterable[TrainingRun]) -> Floats:
        """[seed, step] means of the last steps; nan where there are not that many yet."""
        rows = _rows(runs)
        windows = np.lib.stride_tricks.sliding_window_view(rows, self.window, axis=1)
        return np.pad(windows.mean(axis=-1), ((0, 0), (self.window - 1, 0)), constant_values=np.nan)


def policy_of(text: str) -> str:
    """A policy as its codecs, whichever text it is given by. Raises InputError."""
    bare = text.removesuffix(PER_HOP)
    return f"{compression_of(bare)}{text[len(bare) :]}"


def read_losses(path: Path, baseline: str, last: int, source: str) -> LossCurves:
    """The runs of a CSV file with the columns plan, compression, seed, step and loss. Raises InputError: one line that
    names the file, the line, what was got and what is allowed."""
    lines = read_lines(path, COLUMNS)
    for column in lines[0].cells:
        if column not in COLUMNS:
            raise InputError(f"{path} line 1: column {column!r}: allowed: {', '.join(COLUMNS)}")
    result: dict[tuple[str, str, int], dict[int, float]] = {}
    policies: dict[str, str] = {}
    for line in lines:
        text = line.text("compression")
        if text not in policies:
            policies[text] = _policy(line)
        steps = result.setdefault((line.text("plan"), text, line.integer("seed", 0)), {})
        step = line.integer("step", 0)
        if step in steps:
            raise InputError(f"{line.place}: step: got {step} twice in one run, allowed: every step once")
        steps[step] = _loss(line)
    runs = tuple(
        TrainingRun(plan=plan, compression=text, seed=seed, losses=tuple(steps[step] for step in sorted(steps)))
        for (plan, text, seed), steps in result.items()
    )
    known = [(f"{path}: plan {plan}, seed {seed}", tuple(sorted(steps))) for (plan, _, seed), steps in result.items()]
    _refuse_twice(path, runs)
    _refuse_lengths(known, last)
    _refuse_baseline(path, runs, policies, baseline, last)
    return LossCurves(runs=runs, steps=known[0][1], baseline=baseline, last=last, source=source)


def _policy(line: Line) -> str:
    try:
        return policy_of(line.cells["compression"])
    except InputError as error:
        raise InputError(f"{line.place}: {error}") from None


def _loss(line: Line) -> float:
    try:
        loss = float(line.cells["loss"])
    except ValueError:
        raise line.fault("loss", "a number; nan or inf where a run diverged") from None
    if math.isfinite(loss) and abs(loss) > LARGEST:
        raise line.fault("loss", f"up to {LARGEST:g}; nan or inf where a run diverged")
    return loss


def _refuse_twice(path: Path, runs: tuple[TrainingRun, ...]) -> None:
    """A policy has one run for each seed."""
    first: dict[tuple[str, int], TrainingRun] = {}
    for run in runs:
        other = first.setdefault((run.policy, run.seed), run)
        if other is not run:
            plans = run.plan if run.plan == other.plan else f"{other.plan} and {run.plan}"
            raise InputError(
                f"{path}: {run.compression}, seed {run.seed}: got two runs (plan {plans}), allowed: one for each "
                "policy and seed"
            )


def _refuse_lengths(known: list[tuple[str, tuple[int, ...]]], last: int) -> None:
    """All runs have the same steps, enough to be averaged at the end."""
    (first, steps), *others = known
    if len(steps) < last:
        raise InputError(f"{first}: got {len(steps)} steps, allowed: {last} or more, as many as losses.last")
    for what, own in others:
        if own != steps:
            raise InputError(
                f"{what}: got {len(own)} steps up to {own[-1]}, allowed: those of all runs, {len(steps)} up to "
                f"{steps[-1]}"
            )


def _refuse_baseline(
    path: Path, runs: tuple[TrainingRun, ...], policies: dict[str, str], baseline: str, last: int
) -> None:
    """The baseline is there and ends well, for every seed of the others."""
    wanted = policy_of(baseline)
    if wanted not in policies.values():
        raise InputError(f"{path}: no runs of the baseline {baseline!r}; {nearest(baseline, policies)}")
    base = {run.seed: run for run in runs if run.policy == wanted}
    for seed, run in base.items():
        if not math.isfinite(sum(run.losses[-last:])):
            raise InputError(
                f"{path}: {baseline}, seed {seed}: the baseline diverged, allowed: finite losses at its end"
            )
    for run in runs:
        if run.seed not in base:
            raise InputError(
                f"{path}: {run.compression}: got seed {run.seed}, allowed: seeds of the baseline {baseline}: "
                f"{', '.join(map(str, sorted(base)))}"
            )


def _rows(runs: Iterable[TrainingRun]) -> Floats:
    """[seed, step] losses."""
    return np.array([run.losses for run in runs], dtype=np.float64)
