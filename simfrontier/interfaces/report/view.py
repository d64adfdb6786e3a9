"""View of a study for the sections of its page: the largest size, the plans that fit, plan markers, and words for
devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeAlias

from simfrontier.answers.experiments import Environment, Sensitivity
from simfrontier.answers.search import TriedGrid
from simfrontier.answers.slowdown import Slowdown
from simfrontier.answers.study import RATE as RATE, PlanOutcome, Study
from simfrontier.core.workload import Shape
from simfrontier.inputs.scenario import Case, PublishedTable, Scenario
from simfrontier.interfaces.report.theme import PlanMark, marks

Searches: TypeAlias = "Mapping[tuple[str, int], Sequence[TriedGrid]]"
Row: TypeAlias = Mapping[str, Any]
"""A row of results.csv by the names of its columns, None where a cell is empty; see `result_row`."""
Rows: TypeAlias = Mapping[str, Sequence[Row]]
"""Rows by plan, sizes ascending."""
STEP: Final = "step_time_s"
HARMLESS = ("run.devices = ", "uncertainty.")  # settings that leave every rate as it is


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """A study with its additional simulations: variations of unknown settings, other environments, degraded components,
    and the candidates of its searches by plan and size."""

    study: Study
    sensitivity: Sensitivity | None = None
    environment: Environment | None = None
    slowdown: Slowdown | None = None
    searches: Searches = field(default_factory=dict)

    @property
    def scenario(self) -> Scenario:
        return self.study.scenario

    @cached_property
    def plans(self) -> tuple[str, ...]:
        return tuple(self.scenario.plans)

    @cached_property
    def sizes(self) -> tuple[int, ...]:
        return tuple(sorted({outcome.devices for outcome in self.study.outcomes}))

    @property
    def largest(self) -> int:
        return self.sizes[-1]

    @cached_property
    def marks(self) -> Mapping[str, PlanMark]:
        return marks(self.plans)

    @cached_property
    def device(self) -> str:
        """The machine's word for a device: "GCD" or "device"."""
        return self.scenario.machine.device_word

    def at(self, size: int) -> list[PlanOutcome]:
        """Return the outcomes of all plans at a size, in the scenario's order."""
        return [outcome for outcome in self.study.outcomes if outcome.devices == size]

    @cached_property
    def rows(self) -> Rows:
        """The result rows of each plan, one per size."""
        outcomes = sorted(self.study.outcomes, key=lambda outcome: outcome.devices)
        return {plan: [result_row(each) for each in outcomes if each.plan == plan] for plan in self.plans}

    @property
    def any_fits(self) -> bool:
        """Return whether any plan fits at any size."""
        return any(row["fits"] for rows in self.rows.values() for row in rows)

    def rows_at(self, size: int) -> list[Row]:
        """Return the result rows of all plans at a size, in the scenario's order."""
        return [row for rows in self.rows.values() for row in rows if row["devices"] == size]

    @cached_property
    def cases(self) -> Mapping[tuple[str, int], Case]:
        """The case of each plan at each size."""
        return {(o.plan, o.devices): self.scenario.case(o.plan, o.devices) for o in self.study.outcomes}

    @cached_property
    def shapes(self) -> Mapping[int, Shape]:
        """The model's shape at each size."""
        return {size: self.scenario.at(size).shape for size in self.sizes}

    @property
    def piped(self) -> list[PlanOutcome]:
        """Outcomes of pipeline-parallel plans at the largest size."""
        return [outcome for outcome in self.drawn if outcome.stages is not None]

    @cached_property
    def drawn(self) -> list[PlanOutcome]:
        """Outcomes of all plans at the largest size."""
        return self.at(self.largest)

    @property
    def nodes(self) -> int:
        """Number of nodes at the largest size."""
        return int(self.drawn[0].row["nodes"])

    @cached_property
    def ranked(self) -> list[PlanOutcome]:
        """Outcomes of the plans that fit at the largest size, the fastest first."""
        fitting = [outcome for outcome in self.drawn if outcome.row["fits"]]
        return sorted(fitting, key=lambda outcome: -rate(outcome))

    def samples_of(self, outcome: PlanOutcome) -> int:
        """Return the number of sequences per step over all devices."""
        return self.cases[outcome.plan, outcome.devices].samples

    def capacity_bytes(self, outcome: PlanOutcome) -> float:
        """Return the memory of a device that is available for tensors under the outcome's plan, in bytes."""
        return self.scenario.of(outcome.plan, outcome.devices).machine.device.hbm_bytes

    @cached_property
    def counts_tokens(self) -> bool:
        """Return whether rates are in tokens, which is the case if samples of the model are sequences."""
        return self.shapes[self.largest].sequence != 1

    @property
    def rate_unit(self) -> str:
        """Unit of the study's rates, for titles: `tokens/s per GCD`."""
        return f"{'tokens' if self.counts_tokens else 'samples'}/s per {self.device}"

    @cached_property
    def changed_settings(self) -> tuple[str, ...]:
        """Settings given on the command line that change results."""
        settings = [setting for setting in self.scenario.settings if not setting.startswith(HARMLESS)]
        if self.study.fidelity != self.scenario.file.run.fidelity:
            settings.append(f"fidelity = {self.study.fidelity}")
        return tuple(settings)


def comparable(scenario: Scenario) -> PublishedTable | None:
    """Return the published figures if they were measured on the simulated machine, that is, unless the command line
    sets another machine."""
    was_set = any(setting.startswith("machine.name = ") for setting in scenario.settings)
    return None if was_set else scenario.file.published


def result_row(outcome: PlanOutcome) -> Row:
    """Return the row of an outcome with its rate (`RATE`) at the nominal step, and at both ends of 90 % of
    its samples (columns `_nominal`, `_p05` and `_p95`); None for missing values."""
    row = {column: None if cell == "" else cell for column, cell in outcome.row.items()}
    steps = {"nominal": "step_time_nominal_s", "p05": "step_time_p95_s", "p95": "step_time_p05_s"}
    for name, column in steps.items():
        known = row["fits"] and row[column] is not None
        row[f"{RATE}_{name}"] = rate(outcome) * step_s(outcome) / float(outcome.row[column]) if known else None
    return row


def rate(outcome: PlanOutcome) -> float:
    """Return the rate of an outcome that fits, at its median step: tokens per second and device (samples for a model
    without tokens)."""
    return float(outcome.row[RATE])


def step_s(outcome: PlanOutcome) -> float:
    """Return the median step time in seconds of an outcome that fits."""
    return float(outcome.row[STEP])


def published_tflops(outcome: PlanOutcome) -> float:
    """Return TFLOPS per device as published rates count them: for GPTs by GPT-NeoX's metric, for other models by the
    model's own count."""
    published = outcome.row["neox_tflops_per_device"]
    return float(outcome.row["tflops_per_device"] if published == "" else published)


def finite(value: float) -> float | None:
    """Return a number that JSON can represent; None for NaN and infinity."""
    return value if math.isfinite(value) else None
