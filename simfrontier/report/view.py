"""A study as the page's sections use it: the largest size, what fits there, marks and words for devices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from simfrontier.records import dataclass
from simfrontier.report.phrases import NOT_RUN, TOO_BIG
from simfrontier.report.theme import PlanMark, marks
from simfrontier.scenario import Case, PublishedTable, Scenario
from simfrontier.study import PlanOutcome, Study
from simfrontier.workload import Shape

if TYPE_CHECKING:
    from simfrontier.experiments import Environment, Sensitivity
    from simfrontier.slowdown import Slowdown
    from simfrontier.tuning import TriedGrid

Searches: TypeAlias = "Mapping[tuple[str, int], Sequence[TriedGrid]]"
HARMLESS = ("run.devices = ", "uncertainty.")  # settings that leave every rate as it is


@dataclass(frozen=True, kw_only=True)
class StudyView:
    """A study as the page sees it, with the variations of what is unknown, if any were run, what other environments
    would change, what trouble costs, if that was asked for, and the candidates of its searches by plan and size."""

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
        """ "GCD" or "device"."""
        return self.scenario.machine.device_word

    @property
    def devices(self) -> str:
        return f"{self.device}s"

    def at(self, size: int) -> list[PlanOutcome]:
        """Outcomes of all plans at a size, in the scenario's order."""
        return [outcome for outcome in self.study.outcomes if outcome.devices == size]

    @cached_property
    def cases(self) -> Mapping[tuple[str, int], Case]:
        """What each plan is at each size."""
        return {(o.plan, o.devices): self.scenario.case(o.plan, o.devices) for o in self.study.outcomes}

    @cached_property
    def shapes(self) -> Mapping[int, Shape]:
        """The model at each size."""
        return {size: self.scenario.at(size).shape for size in self.sizes}

    @property
    def piped(self) -> list[PlanOutcome]:
        """Outcomes at the largest size that are pipelines."""
        return [outcome for outcome in self.drawn if outcome.stages is not None]

    @cached_property
    def drawn(self) -> list[PlanOutcome]:
        """Outcomes at the largest size."""
        return self.at(self.largest)

    @property
    def nodes(self) -> int:
        """Of the largest size."""
        return int(self.drawn[0].row["nodes"])

    @cached_property
    def ranked(self) -> list[PlanOutcome]:
        """Outcomes at the largest size that fit, the fastest first."""
        fitting = [outcome for outcome in self.drawn if outcome.row["fits"]]
        return sorted(fitting, key=lambda outcome: -rate(outcome))

    def samples_of(self, outcome: PlanOutcome) -> int:
        """Sequences of a step over all devices."""
        return self.cases[outcome.plan, outcome.devices].samples

    def capacity_bytes(self, outcome: PlanOutcome) -> float:
        """Memory of a device for tensors, as the outcome's plan has it."""
        return self.scenario.of(outcome.plan, outcome.devices).machine.device.hbm_bytes

    @cached_property
    def counts_tokens(self) -> bool:
        """Whether rates are in tokens: samples of the model are sequences."""
        return self.shapes[self.largest].sequence != 1

    @property
    def rate_unit(self) -> str:
        """What rates of this study count, for titles: tokens/s per GCD."""
        return f"{'tokens' if self.counts_tokens else 'samples'}/s per {self.device}"

    @cached_property
    def changed_settings(self) -> tuple[str, ...]:
        """What was set on the command line that changes results."""
        settings = [setting for setting in self.scenario.settings if not setting.startswith(HARMLESS)]
        if self.study.fidelity != self.scenario.file.run.fidelity:
            settings.append(f"fidelity = {self.study.fidelity}")
        return tuple(settings)


def comparable(scenario: Scenario) -> PublishedTable | None:
    """The published figures, if they are of the machine that is simulated: no other one was set on the command line."""
    was_set = any(setting.startswith("machine.name = ") for setting in scenario.settings)
    return None if was_set else scenario.file.published


def rate(outcome: PlanOutcome) -> float:
    """Tokens per second and device of an outcome that fits, at its median step (samples, where a model has no tokens):
    what plans are ranked and drawn by, whether they recompute or not."""
    return float(outcome.row["tokens_per_s_per_device"])


def step_s(outcome: PlanOutcome) -> float:
    """Seconds of the median step of an outcome that fits."""
    return float(outcome.row["step_time_s"])


def nominal_step_s(outcome: PlanOutcome) -> float:
    """Seconds of its step without variation between devices and errors of models."""
    return float(outcome.row["step_time_nominal_s"])


def published_tflops(outcome: PlanOutcome) -> float:
    """TFLOPS per device as published rates of GPTs count them (GPT-NeoX's metric); of other models their own."""
    published = outcome.row["neox_tflops_per_device"]
    return float(outcome.row["tflops_per_device"] if published == "" else published)


def rate_among(rates: Mapping[str, float], plan: str) -> tuple[float | None, str]:
    """The rate of a plan, and why there is none: it was not run, or does not fit; empty where there is one."""
    known = rates.get(plan)
    if known is None:
        return None, NOT_RUN
    return (None, TOO_BIG) if math.isnan(known) else (known, "")
