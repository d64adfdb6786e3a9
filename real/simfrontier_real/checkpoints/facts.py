"""What a run must have in common with the one that wrote a checkpoint, to go on with it as that one would have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier.schedule import Schedule
from simfrontier_real.checkpoints.manifest import Manifest, Value
from simfrontier_real.checkpoints.states_of_rank import difference
from simfrontier_real.models import OF_MODEL
from simfrontier_real.training_settings import TrainingSettings

OF_RUN: Final = (*OF_MODEL, "attention", "batch", "clip", "model", "sequence", "tied")
"""What a schedule's meta says of its model, data and optimizer, which a run has in common with the one it goes on
with."""


def model_facts(schedule: Schedule) -> dict[str, Value]:
    """What a schedule says of its model and data, by keys of its meta; nothing of its plan."""
    meta: Mapping[str, str | int] = schedule.meta
    # fused attention drops no probabilities, else how it is computed is the plan's affair
    keys = [key for key in OF_RUN if key in meta and (key != "attention" or meta.get("dropout"))]
    return {key: meta[key] for key in sorted(keys)}


def training_facts(training: TrainingSettings) -> dict[str, Value]:
    """The settings of a run that decide what its weights become."""
    adam = training.adam
    return {
        "seed": training.seed,
        "data_seed": training.data_seed,
        "learning_rate": adam.learning_rate,
        "beta1": adam.beta1,
        "beta2": adam.beta2,
        "epsilon": adam.epsilon,
        "clip": adam.clip,
        "loss_scale": training.loss_scale,
        "of_model": None if training.of_model is None else repr(training.of_model),
    }


def refuse_other_run(manifest: Manifest, folder: Path, schedule: Schedule, training: TrainingSettings) -> None:
    """Raise InputError where a run cannot go on with a checkpoint as the one that wrote it would have."""
    where = str(folder)
    for title, theirs, ours in (
        ("model", manifest.model, model_facts(schedule)),
        ("training", manifest.training, training_facts(training)),
    ):
        for key in dict.fromkeys((*theirs, *ours)):
            if theirs.get(key) != ours.get(key):
                there, here = (json.dumps(each.get(key)) for each in (theirs, ours))
                raise InputError(f"is of another {title}: {key} is {there} there, {here} here", where=where)
    other = difference(schedule, manifest.tensors)
    if other is not None:
        raise InputError(f"is of another model: {other}", where=where)
    if manifest.steps >= training.steps:
        raise InputError(
            f"got {training.steps}, but {folder} is after {manifest.steps} steps; allowed: more", where="--steps"
        )
