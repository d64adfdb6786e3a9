"""Losses of training with compressed messages: curves read from a file, and the distance of policies from a
baseline."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simfrontier.base.errors import InputError, nearest
from simfrontier.base.limits import LARGEST
from simfrontier.core.plan import compression_of
from simfrontier.inputs.measured import Line, read_lines

if TYPE_CHECKING:
    import pandas as pd

COLUMNS: Final = ("plan", "compression", "seed", "step", "loss")
PER_HOP: Final = " per hop"  # behind the policy of a plan that codes every message between two ranks by itself
NUM_SD: Final = 2.0  # standard deviations to either side of the baseline that its band takes in


@dataclass(frozen=True, kw_only=True, eq=False)
class LossCurves:
    """Losses of training runs by step; nan or inf if a run diverged. A policy may be given by any text that denotes its
    codecs.

    `table`: a row for each step, a column for each (policy, seed); `texts`: the policies as first written in the file,
    with the plan that uses each; `baseline`: the policy with which the others are compared, seed by seed; `last`:
    number of final steps whose mean is the final loss; `source`: the source of the runs.
    """

    table: pd.DataFrame
    texts: Mapping[str, str]
    baseline: str
    last: int
    source: str

    @property
    def policies(self) -> tuple[str, ...]:
        return tuple(self.texts)

    @property
    def steps(self) -> list[int]:
        return [int(step) for step in self.table.index]

    def of(self, text: str) -> pd.DataFrame:
        """Return the losses of a policy by step, a column for each seed; no columns if the file has no runs of the
        policy."""
        policies = self.table.columns.get_level_values(0)
        return self.table.loc[:, policies == policy_of(text)].droplevel(0, axis=1)

    @property
    def window(self) -> int:
        """Number of steps that are averaged for a point of a smoothed curve: ten, or fewer if the final loss averages
        fewer."""
        return min(10, self.last)

    def smoothed(self, text: str) -> pd.Series[float]:
        """Return the smoothed losses of a policy by step, each the mean over seeds and over the last `window` steps;
        nan for the first steps."""
        return self._smoothed(text).mean(axis=1, skipna=False)

    def finals(self, text: str) -> pd.Series[float]:
        """Return the final loss of a policy for every seed."""
        return self.of(text).tail(self.last).mean(skipna=False)

    def apart(self, text: str) -> pd.Series[float]:
        """Return by seed the final loss of a policy minus the baseline's for the same seed; not finite if a run
        diverged."""
        finals = self.finals(text)
        return finals - self.finals(self.baseline)[finals.index]

    def distance(self, text: str) -> float | None:
        """Return the mean of `apart` over seeds; None if the file has no runs of the policy."""
        apart = self.apart(text)
        return float(apart.mean(skipna=False)) if len(apart) else None

    def distances(self, text: str) -> pd.Series[float]:
        """Return the difference of smoothed losses from the baseline by step, as a mean over seeds."""
        own = self._smoothed(text)
        return (own - self._smoothed(self.baseline)[own.columns]).mean(axis=1, skipna=False)

    @property
    def half_band(self) -> float | None:
        """Two standard deviations of the baseline's final losses over seeds; None with a single seed."""
        finals = self.finals(self.baseline)
        return NUM_SD * float(finals.std()) if len(finals) > 1 else None

    @property
    def band(self) -> tuple[float, float] | None:
        """The mean of the baseline's final losses minus and plus `half_band`."""
        half, mean = self.half_band, float(self.finals(self.baseline).mean())
        return None if half is None else (mean - half, mean + half)

    @property
    def half_bands(self) -> pd.Series[float] | None:
        """Two standard deviations of the baseline's smoothed losses over seeds, for every step; None with a single
        seed."""
        rows = self._smoothed(self.baseline)
        return NUM_SD * rows.std(axis=1, skipna=False) if len(rows.columns) > 1 else None

    def stays(self, text: str) -> bool | None:
        """Return whether a policy's final loss is within the baseline's band, that is, at most `half_band` from its
        mean; None if there is no band, or there are no runs of the policy."""
        half, distance = self.half_band, self.distance(text)
        return None if half is None or distance is None else abs(distance) <= half

    def _smoothed(self, text: str) -> pd.DataFrame:
        return self.of(text).rolling(self.window).mean()


def policy_of(text: str) -> str:
    """Return the canonical text of a policy (its codecs). Raises InputError."""
    bare = text.removesuffix(PER_HOP)
    return f"{compression_of(bare)}{text[len(bare) :]}"


def read_losses(path: Path, baseline: str, last: int, source: str) -> LossCurves:
    """Read training runs from a CSV file with the columns plan, compression, seed, step and loss. Raises InputError
    with the file, the line, the value and the allowed values."""
    import pandas as pd

    lines = read_lines(path, COLUMNS)
    if unknown := [column for column in lines[0].cells if column not in COLUMNS]:
        raise InputError(f"{path} line 1: column {unknown[0]!r}: allowed: {', '.join(COLUMNS)}")
    policies: dict[str, str] = {}  # by the texts of the file
    names: dict[str, str] = {}  # the first text of each policy
    plans: dict[str, str] = {}
    losses: dict[tuple[str, int], dict[int, float]] = {}
    for line in lines:
        text, step = line.text("compression"), line.integer("step", 0)
        if text not in policies:
            policies[text] = _policy(line)
            names.setdefault(policies[text], text)
        plans.setdefault(names[policies[text]], line.text("plan"))
        run = losses.setdefault((policies[text], line.integer("seed", 0)), {})
        if step in run:
            raise InputError(f"{line.place}: step: got {step} twice in one run of {text}, allowed: every step once")
        run[step] = _loss(line)
    _refuse_lengths(path, losses, names, last)
    _refuse_baseline(path, losses, names, baseline, last)
    return LossCurves(table=pd.DataFrame(losses).sort_index(), texts=plans, baseline=baseline, last=last, source=source)


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


Losses = Mapping[tuple[str, int], Mapping[int, float]]


def _refuse_lengths(path: Path, losses: Losses, names: Mapping[str, str], last: int) -> None:
    """Raise InputError unless all runs have the same steps, at least `last` of them."""
    steps = next(iter(losses.values())).keys()
    if len(steps) < last:
        raise InputError(f"{path}: got {len(steps)} steps, allowed: {last} or more, as many as losses.last")
    for (policy, seed), own in losses.items():
        if own.keys() != steps:
            text = f"{path}: {names[policy]}, seed {seed}: got {len(own)} steps up to {max(own)}"
            raise InputError(f"{text}, allowed: those of all runs, {len(steps)} up to {max(steps)}")


def _refuse_baseline(path: Path, losses: Losses, names: Mapping[str, str], baseline: str, last: int) -> None:
    """Raise InputError unless the baseline exists for every seed of the other policies, and its runs end with finite
    losses."""
    wanted = policy_of(baseline)
    seeds = sorted(seed for policy, seed in losses if policy == wanted)
    if not seeds:
        raise InputError(f"{path}: no runs of the baseline {baseline!r}; {nearest(baseline, names.values())}")
    for seed in seeds:
        run = losses[wanted, seed]
        if not all(math.isfinite(run[step]) for step in sorted(run)[-last:]):
            text = f"{path}: {baseline}, seed {seed}: the baseline diverged"
            raise InputError(f"{text}, allowed: finite losses at its end")
    for policy, seed in losses:
        if seed not in seeds:
            allowed = f"seeds of the baseline {baseline}: {', '.join(map(str, seeds))}"
            raise InputError(f"{path}: {names[policy]}: got seed {seed}, allowed: {allowed}")
