"""Shapes of Mugs pre-training: an architecture with its graph and the steps that it can take; those that have names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.core.workload import Attention, Checkpointing, Softmax, Workload
from simfrontier_extras.mugs.architecture import MugsArchitecture
from simfrontier_extras.mugs.model import mugs


@dataclass(frozen=True, slots=True, kw_only=True)
class MugsShape(MugsArchitecture):
    """Shape of a Mugs run, which only plans with whole weights can train."""

    @property
    def sequence(self) -> int:
        """Samples are counted instead of tokens: a sample is one image."""
        return 1

    @property
    def num_parameters(self) -> int:
        """Number of trained parameters, which are the student's."""
        return _one_image(self).num_parameters

    @property
    def sample(self) -> str:
        large, small = f"{2 * self.global_crops} crops of {self.image}", f"{self.local_crops} of {self.small}"
        return f"images seen in {large} and {small} pixels"

    @property
    def families(self) -> tuple[str, ...]:
        """Families of plans that keep weights, queues and memories whole on every rank."""
        return ("ddp",)

    @property
    def gathers_statistics(self) -> bool:
        """True: keys and rows for queues and memories, and the sum for the centre, are gathered from all ranks."""
        return True

    def refuse_step(self, grad_accum: int, precision: str, checkpointing: Checkpointing) -> None:
        for got, allowed in (
            (f"grad_accum = {grad_accum}" * (grad_accum != 1), "1 (its queues move on once a step)"),
            (
                f'precision = "{precision}"' * (precision in ("fp16", "bf16")),
                '"fp32" or "fp64" (teacher, queues and memories are kept in it)',
            ),
            (
                f'checkpointing = "{checkpointing}"' * (checkpointing != "none"),
                '"none" (the teacher keeps no activations)',
            ),
        ):
            if got:
                raise InputError(f"model {self.name}: got {got}; allowed: {allowed}")

    def with_settings(self, settings: Mapping[str, Any]) -> MugsShape:
        """Return the shape with these settings. Raises InputError for any other than the number of layers: Mugs runs
        are named ones."""
        for key in settings:
            if key != "num_layers":
                raise InputError(f"model.{key}: {self.name} is a Mugs run, of which only num_layers may be set")
        return replace(self, **settings)

    def workload(
        self, batch: int, checkpointing: Checkpointing, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        return mugs(self, batch, precision, attention, softmax)

    def step_flops(self, samples: int, recomputed: bool) -> float:
        """Return the FLOPs of a step's own matrix products."""
        return float(mugs(self, samples).matmul_flops)


@cache
def _one_image(shape: MugsShape) -> Workload:
    return mugs(shape, 1)


_SOURCE = "sail-sg/mugs src/vision_transformer.py, src/model.py, main.py and the shipped scripts"

ADDS: Final[tuple[MugsShape, ...]] = (
    MugsShape(name="mugs-vit-s", num_layers=12, hidden=384, heads=6, source=_SOURCE),
    MugsShape(name="mugs-vit-b", num_layers=12, hidden=768, heads=12, source=_SOURCE),
    MugsShape(name="mugs-vit-l", num_layers=24, hidden=1024, heads=16, source=_SOURCE, trains_norms=False),
    MugsShape(
        name="tiny-mugs",
        num_layers=2,
        hidden=16,
        heads=2,
        source="made for tests and examples",
        image=16,
        small=8,
        patch=4,
        local_crops=3,
        projector=24,
        bottleneck=8,
        predictor=20,
        prototypes=12,
        queue=32,
        neighbours=3,
    ),
)
