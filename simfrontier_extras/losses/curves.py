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
    """Losses of runs by step; nan or inf where a run diverged. A policy may be given by any text that means its codecs.

    `table`: a row for each step, a column for each (policy, seed); `texts`: the policies as first written in the file,
    with the plan that has them; `baseline`: the policy that others are compared with, seed by seed; `last`: steps at
    the end that are averaged for a final loss; `source`: where the runs are from.
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
        """Losses of a policy by step, a column for each seed; no columns where the file has none."""
        policies = self.table.columns.get_level_values(0)
        return self.table.loc[:, policies == policy_of(text)].droplevel(0, axis=1)

    @property
    def window(self) -> int:
        """Steps that are averaged for a point of a smoothed curve: ten, or fewer where a final loss is of fewer."""
        return min(10, self.last)

    def smoothed(self, text: str) -> pd.Series[float]:
        """Losses of a policy by step, each the mean of the `window` steps up to it and over seeds; nan before these."""
        return self._smoothed(text).mean(axis=1, skipna=False)

    def finals(self, text: str) -> pd.Series[float]:
        """The final loss of every seed of a policy."""
        return self.of(text).tail(self.last).mean(skipna=False)

    def apart(self, text: str) -> pd.Series[float]:
        """The distance of each seed's final loss from the baseline's of the same seed; not finite where a run
        diverged."""
        finals = self.finals(text)
        return finals - self.finals(self.baseline)[finals.index]

    def distance(self, text: str) -> float | None:
        """The mean of `apart` over seeds; None where the file has no runs of the policy."""
        apart = self.apart(text)
        return float(apart.mean(skipna=False)) if len(apart) else None

    def distances(self, text: str) -> pd.Series[float]:
        """The distance as a mean over seeds for every step, of smoothed losses."""
        own = self._smoothed(text)
        return (own - self._smoothed(self.baseline)[own.columns]).mean(axis=1, skipna=False)

    @property
    def half_band(self) -> float | None:
        """Two standard deviations of the baseline's final losses over seeds; None with one seed."""
        finals = self.finals(self.baseline)
        return NUM_SD * float(finals.std()) if len(finals) > 1 else None

    @property
    def band(self) -> tuple[float, float] | None:
        """The mean of the baseline's final losses, less and plus half the band."""
        half, mean = self.half_band, float(self.finals(self.baseline).mean())
        return None if half is None else (mean - half, mean + half)

    @property
    def half_bands(self) -> pd.Series[float] | None:
        """The same as `half_band` for every step, of smoothed losses."""
        rows = self._smoothed(self.baseline)
        return NUM_SD * rows.std(axis=1, skipna=False) if len(rows.columns) > 1 else None

    def stays(self, text: str) -> bool | None:
        """Return whether a policy ends within the band, its distance being no more than half of it; None where there is
        no band, or no runs of the policy."""
        half, distance = self.half_band, self.distance(text)
        return None if half is None or distance is None else abs(distance) <= half

    def _smoothed(self, text: str) -> pd.DataFrame:
        return self.of(text).rolling(self.window).mean()


def policy_of(text: str) -> str:
    """Return a policy as its codecs, whichever text it is given by. Raises InputError."""
    bare = text.removesuffix(PER_HOP)
    return f"{compression_of(bare)}{text[len(bare) :]}"


def read_losses(path: Path, baseline: str, last: int, source: str) -> LossCurves:
    """Read the runs of a CSV file with the columns plan, compression, seed, step and loss. Raises InputError: file,
    line, got and allowed."""
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
    """Raise InputError unless all runs have the same steps, enough to be averaged at the end."""
    steps = next(iter(losses.values())).keys()
    if len(steps) < last:
        raise InputError(f"{path}: got {len(steps)} steps, allowed: {last} or more, as many as losses.last")
    for (policy, seed), own in losses.items():
        if own.keys() != steps:
            text = f"{path}: {names[policy]}, seed {seed}: got {len(own)} steps up to {max(own)}"
            raise InputError(f"{text}, allowed: those of all runs, {len(steps)} up to {max(steps)}")


def _refuse_baseline(path: Path, losses: Losses, names: Mapping[str, str], baseline: str, last: int) -> None:
    """Raise InputError unless the baseline is there and ends well, for every seed of the others."""
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
