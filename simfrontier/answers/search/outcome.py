"""Outcome of a search: plans with their estimates and simulations, the plans that are ruled out, and how certain the
ranking is; also as rows, one per plan of the space."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.answers.search.evaluator import PARTS, SimulatedPlan
from simfrontier.answers.search.pins import DIMENSIONS, LossyPolicy, Pins
from simfrontier.answers.search.space import Candidate
from simfrontier.answers.search.step_estimate import Estimate
from simfrontier.answers.step import TimeSpent
from simfrontier.answers.study import BAND, Cell
from simfrontier.base.io import comment, toml_document
from simfrontier.base.units import counted, written
from simfrontier.base.version import __version__
from simfrontier.inputs.scenario import COMPARING, Scenario

if TYPE_CHECKING:
    import pandas as pd


COLUMNS = (
    "rank",
    "plan",
    "known",
    "step_time_s",
    *BAND,
    "step_time_nominal_s",
    "chance_fastest",
    "tokens_per_s",
    "peak_memory_bytes",
    "estimate_s",
    "floor_s",
    *(f"{part}_s" for part in PARTS),
    *DIMENSIONS,
    "stack",
    "data",
    "grad_accum",
    "table",
)


@dataclass(frozen=True, kw_only=True)
class TunedPlan:
    """A plan that fits into memory, with its estimate and, if it was among the best, its simulation."""

    candidate: Candidate
    estimate: Estimate
    simulated: SimulatedPlan | None = None

    @property
    def step_s(self) -> float:
        """Step time in seconds: the simulated median or, if the plan was not simulated, the estimate."""
        return self.estimate.step_s if self.simulated is None else self.simulated.step_s

    @property
    def nominal_s(self) -> float:
        """Nominal step time in seconds, without variation and errors, comparable with estimates and lower bounds."""
        return self.estimate.step_s if self.simulated is None else self.simulated.nominal_s

    @property
    def peak_bytes(self) -> float:
        """Bytes on the fullest rank: simulated, or else estimated."""
        return self.estimate.peak_bytes if self.simulated is None else self.simulated.peak_bytes


@dataclass(frozen=True, kw_only=True)
class RuledOut:
    """A plan that was not estimated because no plan with its grid, micro-batch and checkpointing can be faster than a
    simulated one; with a lower bound of its step time in seconds.
    """

    candidate: Candidate
    floor_s: float


@dataclass(frozen=True, kw_only=True)
class OwnPlan:
    """One of the scenario's own plans, simulated at this size, or the reason why it was not (`why`)."""

    name: str
    simulated: SimulatedPlan | None
    fits: bool
    why: str = ""


@dataclass(frozen=True, kw_only=True)
class TuningOutcome:
    """The outcome of a search. `plans`: those that fit, simulated plans before estimated ones, each the fastest first;
    `passed_over`: plans that their lower bound ruled out before they were estimated. `total`: number of plans that
    divide devices, model and batch; `too_big`: how many of them do not fit into memory; `faulty`: how many the library
    cannot run. `misfits`: plans that fit by their estimate but not by their simulation. `why`: one sentence on why the
    best plan is faster than the next one of another kind (empty if there is none); `time`: breakdown of the best plan's
    step time.
    """

    scenario: Scenario
    devices: int
    batch: int
    pins: Pins
    loss: LossyPolicy
    plans: tuple[TunedPlan, ...]
    passed_over: tuple[RuledOut, ...]
    own: tuple[OwnPlan, ...]
    total: int
    too_big: int
    faulty: int
    misfits: tuple[TunedPlan, ...]
    why: str
    time: TimeSpent

    def __repr__(self) -> str:
        fit = f"{counted(len(self.plans), 'plan')} that fit on {self.devices:,} devices"
        best = ", ".join(filter(None, (f"{written(self.best.step_s, 's')} a step", self.why)))
        return f"{fit}, the best with {best}; see best, plans and frame()"

    @property
    def best(self) -> TunedPlan:
        """The fastest plan."""
        return self.plans[0]

    @property
    def simulated(self) -> tuple[TunedPlan, ...]:
        """The plans that were simulated and fit, the fastest first."""
        return tuple(plan for plan in self.plans if plan.simulated is not None)

    @property
    def estimated(self) -> tuple[TunedPlan, ...]:
        """The plans that were only estimated, the fastest first."""
        return tuple(plan for plan in self.plans if plan.simulated is None)

    @cached_property
    def ruled_out(self) -> int:
        """Number of plans that were not simulated and cannot be faster than the best, by their lower bound."""
        return len(self.passed_over) + sum(plan.estimate.floor_s > self.best.nominal_s for plan in self.estimated)

    @property
    def headroom(self) -> float:
        """Share by which the best step could still be shorter: no plan of the space is faster than the lowest lower
        bound."""
        floors = [plan.estimate.floor_s for plan in self.estimated]
        return max(0.0, 1.0 - min(floors, default=self.best.nominal_s) / self.best.nominal_s)

    @property
    def errors(self) -> tuple[float, float]:
        """The smallest and the largest relative amount by which simulated steps are longer than estimated."""
        off = [plan.simulated.nominal_s / plan.estimate.step_s - 1.0 for plan in self.simulated if plan.simulated]
        return min(off), max(off)

    @cached_property
    def chances(self) -> tuple[float | None, ...]:
        """For each simulated plan, the share of samples in which it is the fastest of the simulated plans; None without
        samples.
        """
        import numpy as np

        samples = [plan.simulated.samples_s for plan in self.simulated if plan.simulated is not None]
        if not all(samples):
            return (None,) * len(samples)
        first = np.argmin(np.array(samples), axis=0)
        return tuple(float(np.mean(first == number)) for number in range(len(samples)))

    def front(self) -> tuple[TunedPlan, ...]:
        """Return the Pareto front: plans that no other plan beats in both time and memory, the fastest first."""
        out: list[TunedPlan] = []
        for plan in sorted(self.plans, key=lambda plan: (plan.step_s, plan.peak_bytes)):
            if not out or plan.peak_bytes < out[-1].peak_bytes:
                out.append(plan)
        return tuple(out)

    def frame(self) -> pd.DataFrame:
        """Return a table with one row per plan, with the columns of results.csv (see `rows`)."""
        import pandas as pd

        return pd.DataFrame(rows(self))


def rows(tuning: TuningOutcome) -> list[dict[str, Cell]]:
    """Return a row per plan that divides devices, model and batch, except plans that do not fit. `known` is
    `simulated`, `estimated` or `ruled out`; times in seconds, empty if unknown; `table` is the plan's table in a
    scenario.
    """
    tokens = tuning.batch * tuning.scenario.at(tuning.devices).sequence
    chances = dict(enumerate(tuning.chances))  # the simulated plans come first
    known = [_row_of(plan, place + 1, tokens, chances.get(place)) for place, plan in enumerate(tuning.plans)]
    ruled_out = sorted(tuning.passed_over, key=lambda out: (out.floor_s, out.candidate.key))
    return known + [_filled(out.candidate, {"known": "ruled out", "floor_s": out.floor_s}) for out in ruled_out]


def _row_of(plan: TunedPlan, rank: int, tokens: float, chance: float | None) -> dict[str, Cell]:
    known: dict[str, Cell] = {
        "rank": rank,
        "known": "estimated",
        "step_time_s": plan.step_s,
        "step_time_nominal_s": plan.nominal_s,
        "tokens_per_s": tokens / plan.step_s,
        "peak_memory_bytes": round(plan.peak_bytes),
        "estimate_s": plan.estimate.step_s,
        "floor_s": plan.estimate.floor_s,
    }
    if plan.simulated is not None:
        known["known"] = "simulated"
        known |= zip(BAND, plan.simulated.band_s or (), strict=False)
        known |= {f"{part}_s": plan.simulated.parts[part] for part in PARTS}
    if chance is not None:
        known["chance_fastest"] = chance
    return _filled(plan.candidate, known)


def _filled(candidate: Candidate, known: dict[str, Cell]) -> dict[str, Cell]:
    """Return the row of a plan: its state (`known`) and its settings."""
    return {
        **dict.fromkeys(COLUMNS, ""),
        **known,
        **{name: candidate.value(name) for name in DIMENSIONS},
        "plan": candidate.name,
        "stack": candidate.stack,
        "data": candidate.case.batch_ranks,
        "grad_accum": candidate.case.grad_accum,
        "table": candidate.key,
    }


PLACES = ("best", "second", "third")
OTHER_PLANS = ("at", *COMPARING)  # tables that are of the scenario's own plans or sizes


def best_document(outcome: TuningOutcome, folder: Path) -> dict[str, Any]:
    """Return the scenario's document with the best simulated plans (`best`, `second`, `third`), at the size and with
    the batch of the search. File names in it are relative to `folder`.
    """
    here = outcome.scenario.at(outcome.devices)
    document = {key: value for key, value in here.document.items() if key not in OTHER_PLANS}
    training = {k: v for k, v in document.get("training", {}).items() if k not in ("micro_batch", "grad_accum")}
    named = {
        "name": f"{outcome.scenario.name}-best",
        "title": f"{outcome.scenario.file.title}: the best plans for {outcome.devices:,} devices",
        "training": {**training, "batch": outcome.batch},
        "run": {**document["run"], "devices": [outcome.devices]},
        "plans": {place: dict(plan.candidate.table) for place, plan in zip(PLACES, outcome.simulated, strict=False)},
    }
    inherited = outcome.scenario.machine.library
    if inherited.endswith(".toml"):
        document = {**document, "library": {"name": inherited, **document.get("library", {})}}
    seen: dict[str, Any] = _seen({**document, **named}, Path(outcome.scenario.where).parent, folder)
    return seen


def best_toml(outcome: TuningOutcome, folder: Path) -> str:
    """Return the document of `best_document` as TOML text for a file in `folder`, with a comment on its origin."""
    head = (
        f"The best plans that simfrontier {__version__} has found for {outcome.scenario.name} on {outcome.devices:,} "
        f"devices,\nwith {outcome.batch:,} sequences a step: of {outcome.total:,} plans, {len(outcome.simulated):,} "
        "were simulated."
    )
    if outcome.pins.values:
        head += f" Held: {outcome.pins}."
    remarks = {
        f"plans.{place}": f"{plan.candidate.name}: {plan.step_s:.6g} s, {plan.peak_bytes / 1e9:.4g} GB"
        for place, plan in zip(PLACES, outcome.simulated, strict=False)
    }
    return f"{comment(head)}\n\n{toml_document(best_document(outcome, folder), remarks)}"


def _seen(value: Any, beside: Path, folder: Path) -> Any:
    """Return a value in which the user's own files, found next to the scenario or in the working folder, are paths
    relative to another folder."""
    if isinstance(value, dict):
        return {key: _seen(each, beside, folder) for key, each in value.items()}
    if isinstance(value, list):
        return [_seen(each, beside, folder) for each in value]
    if not isinstance(value, str) or "." not in value:
        return value
    found = next((path for path in (beside / value, Path(value)) if os.path.isfile(path)), None)
    return value if found is None else Path(os.path.relpath(found, folder)).as_posix()
