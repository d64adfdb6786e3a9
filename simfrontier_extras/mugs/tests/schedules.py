"""Small schedules of Mugs to train for real, and the settings of their training."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, Final

from simfrontier.core.plan import Engine, build, make_plan
from simfrontier.core.program import Schedule
from simfrontier_extras.mugs.model import mugs
from simfrontier_extras.mugs.models import ADDS, MugsShape
from simfrontier_real.train.training_settings import Adam, TrainingSettings
from tests.core.program.builders import mesh_of, options_of

(TINY,) = (shape for shape in ADDS if shape.name == "tiny-mugs")  # queues of 32 entries; others have other names
FROZEN: Final = replace(TINY, name="frozen-norms", trains_norms=False)
SMALL_QUEUE: Final = replace(TINY, name="queue-15", queue=15)
BATCH: Final = 8  # images: 16 keys enter a queue in a step, so that it wraps around every second one
STEPS: Final = 6
EQUAL: Final = {"fp64": 1e-9, "fp32": 1e-5}


@cache
def schedule(
    shape: MugsShape = TINY,
    sizes: tuple[int, int, int] = (1, 1, 2),
    precision: str = "fp64",
    plan: str = "ddp",
    grad_accum: int = 1,
    attention: Any = "plain",
    overlap: bool = True,
    overlap_statistics: bool = False,
) -> Schedule:
    """A step of Mugs; `overlap`: gradients are reduced beside the backward, `overlap_statistics`: so are keys, rows and
    the centre gathered."""
    keys = {"overlap_statistics": True} if overlap_statistics else {}
    mesh, options = mesh_of(*sizes), options_of(plan, **keys)
    workload = mugs(shape, BATCH, precision, attention)
    return build(workload, make_plan(plan, options, mesh), mesh, Engine(overlap=overlap), grad_accum)


def training(precision: str = "fp64", steps: int = STEPS, clip: float = 3.0) -> TrainingSettings:
    """Clipped as the original is. In float32 Adam's epsilon is 1e-4: the gradient of a key's bias is zero in exact
    arithmetic, and the rounding of Mugs' sharp losses is some ten times a GPT's."""
    return TrainingSettings(steps=steps, adam=Adam(epsilon=1e-4 if precision == "fp32" else 1e-5, clip=clip))
