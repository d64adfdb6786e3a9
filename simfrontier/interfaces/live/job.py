"""Controls of the live page for the job: model, batch, and the grid of one more plan, which appears when the grid is
moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from simfrontier.core.workload import MODELS, GptShape, MlpShape, sizes_of
from simfrontier.inputs.scenario import Scenario
from simfrontier.inputs.scenario.parts import TRAITS
from simfrontier.inputs.scenario.words import ON_DATA
from simfrontier.interfaces.live.control import Control, control
from simfrontier.interfaces.report import phrases

GRID: Final = "grid"  # the name of the plan
MODEL: Final = "model.name"
BATCH: Final = "training.batch"
ACCUMULATION: Final = "training.grad_accum"
ON_DATA_KEY: Final = "data"
DEGREES: Final = {  # of the grid, by their words
    "tp": ("tensor parallel (tp)", (1, 2, 4, 8, 16)),
    "pp": ("pipeline stages (pp)", (1, 2, 4, 8, 16, 32)),
    "vp": ("runs of layers per stage (vp)", (1, 2, 3, 4, 5, 6, 8, 10, 12)),
    "cp": ("context parallel (cp)", (1, 2, 4, 8, 16)),
    "ep": ("expert parallel (ep)", (1, 2, 4, 8, 16, 32, 64)),
}
_BATCHES: Final = tuple(2**power for power in range(3, 14))
_COUNTS: Final = (1, 2, 4, 8)
_SHAPE: Final = frozenset((*TRAITS, *sizes_of(GptShape), *sizes_of(MlpShape)))  # keys of a model that another replaces


def takes_grids(scenario: Scenario) -> bool:
    """Return whether the model is one of those that grids divide, and that another may take the place of."""
    return isinstance(scenario.shape, GptShape) and not scenario.shape.families


def has_experts(scenario: Scenario) -> bool:
    """Return whether the model is a mixture of experts."""
    return isinstance(scenario.shape, GptShape) and scenario.shape.experts is not None


def model_control(scenario: Scenario) -> Iterator[Control]:
    """Yield the choice of the model, of those that have grids."""
    if takes_grids(scenario):
        own = scenario.file.model.name
        known = {name: shape for name, shape in MODELS.items() if isinstance(shape, GptShape)}
        shapes = {own: scenario.shape, **{name: shape for name, shape in known.items() if name != own}}
        words = [f"{name} ({phrases.in_words(shape.num_parameters)})" for name, shape in shapes.items()]
        yield control(MODEL, "model", "choice", tuple(shapes), words, own)


def batch_controls(scenario: Scenario) -> Iterator[Control]:
    """Yield the sequences of a step, of a micro-batch, and the micro-batches of a step."""
    training, device = scenario.file.training, scenario.machine.device_word
    batches = tuple(sorted({*_BATCHES, training.sequences or _BATCHES[0]}))
    values = batches if training.sequences else (None, *batches)
    words = ["as in the scenario" if value is None else f"{value:,}" for value in values]
    yield control(BATCH, "sequences per step", "slider", values, words, training.sequences)
    for key, label in (("micro_batch", "micro-batch per " + device), ("grad_accum", "accumulation steps")):
        own = getattr(training, key)
        values = tuple(sorted({*_COUNTS, own}))
        if key == "micro_batch" or training.batch is None:
            yield control(f"training.{key}", label, "slider", values, list(map(str, values)), own)


def grid_controls(scenario: Scenario) -> Iterator[Control]:
    """Yield the degrees of the grid, all 1, and the plan on its data axes."""
    if takes_grids(scenario):
        for key, (label, values) in DEGREES.items():
            yield control(key, label, "slider", values, list(map(str, values)), 1, "grid")
        data = (ON_DATA, "zero3", "ddp")
        words = ["zero1: distributed optimizer", "zero3: weights as well", "ddp: nothing"]
        yield control(ON_DATA_KEY, "sharded among data-parallel ranks", "choice", data, words, ON_DATA, "grid")


def job_settings(base: Scenario, moved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of moved controls, without those of the grid: another model takes the place of the shape, and
    the accumulation follows from a batch."""
    settings = {key: value for key, value in moved.items() if key != MODEL}
    if BATCH in moved and base.file.training.grad_accum != 1:
        settings.setdefault(ACCUMULATION, 1)
    if MODEL not in moved:
        return settings
    kept = {key: value for key, value in base.document["model"].items() if key not in _SHAPE}
    return {"model": {**kept, "name": moved[MODEL]}, **settings}


def in_words(grid: Mapping[str, Any]) -> str:
    """Return the plan of the moved controls of the grid, in the words of `--plans`."""
    degrees = [f"{key} {grid[key]}" for key in DEGREES if key in grid] or ["tp 1"]
    return " ".join([*degrees, grid.get(ON_DATA_KEY, ON_DATA)])


def batch_of(others: Scenario, size: int) -> dict[str, Any]:
    """Return the settings that give all plans the batch of the first of the `others`, where the scenario says
    accumulation steps instead."""
    first = next(iter(others.plans))
    if others.file.training.batch is not None or others.shared_batch(size) is not None or first in others.searches:
        return {}
    return {BATCH: others.case(first, size).samples, ACCUMULATION: 1}
