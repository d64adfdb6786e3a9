"""Predictor of the time that each class of kernels takes in a training step, from the scenario of the measured job."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, get_args

from simfrontier.answers.accuracy.residual import NotCovered, Prediction, around
from simfrontier.answers.step.exposed_time import time_spent
from simfrontier.answers.study.schedule_cache import ScheduleCache
from simfrontier.answers.study.simulated_case import SimulatedCase
from simfrontier.core.program import CollectiveKind, has_products
from simfrontier.inputs.measured import STEPS, ClassRow
from simfrontier.inputs.scenario import load_scenario

COMPUTE: Final = "compute"
STEP: Final = "step"
OTHER: Final = "other"


def predict_class(row: ClassRow) -> Prediction | NotCovered:
    """Predict the time of a row's class of kernels in a step without variation between devices, which has no waiting
    for stragglers. The standard deviation is NaN: the variation of such times is unknown."""
    path = STEPS / f"{row.step}.toml"
    if not path.is_file():
        return NotCovered(reason=f"no scenario steps/{path.name} beside the tables")
    return around(_seconds(row.step)[row.kernels], math.nan)


@lru_cache(maxsize=8)
def _seconds(step: str) -> Mapping[str, float]:
    """Return the time of each class of kernels, and of the step, on the critical rank of a nominal step of the scenario
    with this name."""
    scenario = load_scenario(STEPS / f"{step}.toml")
    (plan,) = scenario.file.plans
    (devices,) = scenario.file.run.devices
    case = SimulatedCase.of(scenario, plan, devices, scenario.file.run.fidelity, ScheduleCache())
    spent = time_spent(case.step)
    seconds = {STEP: spent.step_s}
    for part in spent.parts:
        kernels = class_of(part.kind)
        seconds[kernels] = seconds.get(kernels, 0.0) + part.seconds
    return seconds


def class_of(kind: str) -> str:
    """Return the class of kernels of one kind of op: "compute" for matrix products and attention, the kind for a
    collective, "other" for the rest."""
    if kind in get_args(CollectiveKind):
        return kind
    return COMPUTE if has_products(kind) else OTHER
