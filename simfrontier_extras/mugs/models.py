"""Shapes of Mugs pre-training (arXiv 2203.14415): a student and a teacher vision transformer, three heads, queues, and
the crops and patches that they see; those that have names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Final

from simfrontier.errors import InputError
from simfrontier.workload import Attention, Checkpointing, Softmax, Workload, refuse_sizes
from simfrontier_extras.mugs.model import mugs


@dataclass(frozen=True, slots=True, kw_only=True)
class MugsShape:
    """Shape of a Mugs run, which only plans with whole weights can train.

    Source: sail-sg/mugs main.py, src/model.py, src/vision_transformer.py, src/multicropdataset.py.

    A sample is an image, seen as `global_crops` crops of `image` pixels a side by the teacher, as many others by the
    student, and `local_crops` of `small` pixels by the student alone, each cut into square patches of `patch` pixels of
    three colours. The three heads have projectors hidden-`projector`-`projector`-`bottleneck`; those of the instance
    and the local-group head are followed by a predictor `bottleneck`-`predictor`-`bottleneck` in the student; the group
    head ends in `prototypes`. Negatives and memories are queues of `queue` entries; `neighbours` of them join a query
    in the relation block. `trains_norms`: whether the lengths of the prototypes are trained, or stay 1.
    """

    name: str
    num_layers: int
    hidden: int
    heads: int
    source: str
    trains_norms: bool = True
    image: int = 224
    small: int = 96
    patch: int = 16
    global_crops: int = 2
    local_crops: int = 10
    projector: int = 2048
    bottleneck: int = 256
    predictor: int = 4096
    prototypes: int = 65536
    queue: int = 65536
    neighbours: int = 8

    def __post_init__(self) -> None:
        refuse_sizes(self.name, self)
        if self.small > self.image:
            raise InputError(f"model {self.name}: small = {self.small}; allowed: at most image = {self.image}")
        if self.neighbours > self.queue:
            raise InputError(
                f"model {self.name}: neighbours = {self.neighbours}; allowed: at most queue = {self.queue}"
            )
        for key, size in (("image", self.image), ("small", self.small)):
            if size % self.patch:
                raise InputError(f"model {self.name}: {key} = {size} does not divide into patches of {self.patch}")
        if self.global_crops != 2:
            raise InputError(
                f"model {self.name}: global_crops = {self.global_crops}; allowed: 2 (keys are of two views)"
            )

    @property
    def crops(self) -> int:
        """Crops of an image that the student sees."""
        return self.global_crops + self.local_crops

    @property
    def pairs(self) -> int:
        """Pairs of a teacher's and a student's crop of one image that are not of the same view."""
        return self.global_crops * (self.crops - 1)

    @property
    def patch_features(self) -> int:
        """Numbers of one patch."""
        return 3 * self.patch**2

    def num_patches(self, pixels: int) -> int:
        """Patches of a square crop; its tokens are one more."""
        return (pixels // self.patch) ** 2

    @property
    def sequence(self) -> int:
        """A sample is one image: where tokens are counted, images are."""
        return 1

    @property
    def num_parameters(self) -> int:
        """The student's trained ones."""
        return _one_image(self).num_parameters

    @property
    def sample(self) -> str:
        large, small = f"{2 * self.global_crops} crops of {self.image}", f"{self.local_crops} of {self.small}"
        return f"images seen in {large} and {small} pixels"

    @property
    def families(self) -> tuple[str, ...]:
        """Weights, queues and memories are whole on every rank."""
        return ("ddp",)

    @property
    def gathers_statistics(self) -> bool:
        """Keys and rows for queues and memories, and the sum for the centre."""
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
        """Runs of Mugs are named ones, of which only the number of layers may be set."""
        for key in settings:
            if key != "num_layers":
                raise InputError(f"model.{key}: {self.name} is a Mugs run, of which only num_layers may be set")
        return replace(self, **settings)

    def workload(
        self, batch: int, checkpointing: Checkpointing, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        return mugs(self, batch, precision, attention, softmax)

    def step_flops(self, samples: int, recomputed: bool) -> float:
        """By its own matrix products."""
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
