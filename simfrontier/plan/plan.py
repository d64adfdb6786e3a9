"""A plan: where each state of a weight lies, which hops its moves take, and which copy a gather reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from simfrontier.plan.moves import Hop
from simfrontier.schedule.codec import Codec
from simfrontier.schedule.placement import REPLICATE, Placement, flat, partial
from simfrontier.workload import Weight

Purpose = Literal["weight_gather", "copy_gather", "gradient", "step_reduction", "publish", "scalar"]
Stage = Literal["forward", "recompute", "backward"]
CopyRule = Literal["first_gather_of_step", "every_forward", "stale_forward"]
"""Which gathers read the second copy of the weights (DeepSpeed's hpZ, by version):
first_gather_of_step: all but the first after an optimizer step (0.13.2 and later); every_forward: the backward only
(0.10.0); stale_forward: the backward, and a checkpointed first forward, which then reads the previous step's copy
(0.10.2 to 0.13.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Placements of one weight's states. `copy` is a second copy of the weight, plain or coded, or None."""

    weight: Placement
    copy: Placement | None
    accumulator: Placement
    optimizer: Placement


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One point of the partition lattice over the data axes.

    `weight`, `copy`, `accumulator`, `optimizer` name the axes over which the state is Flat; a gradient accumulator is
    Partial over the data axes that it is not Flat over. `hops` gives the route of each kind of move. Gradients of
    tensors with one dimension, or that do not divide by twice the ranks (`fallback_multiple`), take `fallback`
    instead. With `pipelined`, the later hops of a move have lanes of their own, so that they overlap the first hop of
    the next move.
    """

    name: str
    family: str
    axes: tuple[str, ...]
    nesting: tuple[str, ...]
    weight: frozenset[str] = frozenset()
    copy: frozenset[str] | None = None
    copy_codec: Codec | None = None
    copy_rule: CopyRule = "first_gather_of_step"
    accumulator: frozenset[str] = frozenset()
    optimizer: frozenset[str] = frozenset()
    hops: Mapping[Purpose, tuple[Hop, ...]]
    fallback: tuple[Hop, ...] | None = None
    fallback_multiple: int = 1
    one_at_a_time: bool = False
    pipelined: bool = False

    @property
    def quantises_gradients(self) -> bool:
        """Whether the ordinary route of a gradient has a quantised hop."""
        return any(hop.codec is not None and hop.codec.is_quantised for hop in self.hops["gradient"])

    def states(self, weight: Weight, persistent: bool) -> States:
        """Placements for one weight; `persistent` weights stay whole on every rank."""
        pending = [axis for axis in self.axes if axis not in self.accumulator]
        return States(
            weight=REPLICATE if persistent else flat(self.weight),
            copy=None if self.copy is None or persistent else flat(self.copy),
            accumulator=partial(pending, self.accumulator & set(self.axes)),
            optimizer=flat(self.optimizer),
        )

    def falls_back(self, weight: Weight) -> bool:
        """Whether the quantised route cannot take this tensor's gradient."""
        if self.fallback is None:
            return False
        return len(weight.shape) == 1 or weight.num_elements % self.fallback_multiple != 0

    def gradient_hops(self, weight: Weight) -> tuple[Hop, ...]:
        """Route of a raw gradient."""
        return self.fallback if self.fallback is not None and self.falls_back(weight) else self.hops["gradient"]

    def step_hops(self, weight: Weight) -> tuple[Hop, ...]:
        """Route of an accumulated gradient to the optimizer; what fell back before keeps the fallback's codec."""
        hops = self.hops["step_reduction"]
        if self.fallback is None or not self.falls_back(weight):
            return hops
        return tuple(replace(hop, codec=self.fallback[0].codec) for hop in hops)

    def reads_copy(self, stage: Stage, first_micro_batch: bool, checkpointing: bool) -> bool:
        """Whether the gather for this pass reads the second copy."""
        if self.copy is None:
            return False
        match self.copy_rule:
            case "first_gather_of_step":
                return stage != "forward" or not first_micro_batch
            case "every_forward":
                return stage == "backward"
            case "stale_forward":
                return stage == "backward" or (stage == "forward" and checkpointing)

    def writes_copy(self, stage: Stage, first_micro_batch: bool, checkpointing: bool) -> bool:
        """Whether the weights gathered for this pass are written to the second copy when they are released."""
        if self.copy is None or self.reads_copy(stage, first_micro_batch, checkpointing):
            return False
        return first_micro_batch if self.copy_rule == "first_gather_of_step" else stage != "backward"

    def is_stale(self, stage: Stage, checkpointing: bool) -> bool:
        """Whether this pass may see weights of the previous step."""
        return self.copy is not None and self.copy_rule == "stale_forward" and stage == "forward" and checkpointing


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    """How the training engine issues its communication; defaults are DeepSpeed 0.16.5's ZeRO-3 (docs and stage3.py).

    Sizes are in elements. `blocking` says what a blocking call holds up: the host, or only its own stream.
    """

    persistence_elements: int = 100_000
    prefetch_elements: int = 50_000_000
    live_elements: int = 1_000_000_000
    reuse_elements: int = 1_000_000_000
    reduce_bucket_elements: int = 500_000_000
    gather_bucket_elements: int = 500_000_000
    outstanding_fetches: int = 2
    granularity: Literal["module", "layer"] = "module"
    overlap: bool = True
    blocking: Literal["host", "stream"] = "host"
    step_reduction: Literal["overlap", "end"] = "overlap"
