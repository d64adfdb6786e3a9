"""Settings of training and of its optimizer, and the steps that it goes on from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from simfrontier_real.ops.rank_context import RankContext

CLIP: Final = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Adam:
    """Adam's settings, also of the steps that LAMB scales, and the norm to which gradients are clipped (infinity:
    never).

    The default clip binds on no step of the small models of this repository, so that a wrong scale of the gradients is
    not hidden by it (docs/real.md has their norms).
    """

    learning_rate: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    epsilon: float = 1e-8
    clip: float = CLIP


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSettings:
    """What to train: number of optimizer steps, seed of weights and of data (where it has none of its own), settings of
    Adam, scale of the loss, and settings of a model of an extra (None: its defaults)."""

    steps: int = 20
    seed: int = 0
    data: int | None = None
    adam: Adam = field(default_factory=Adam)
    loss_scale: float = 1.0
    of_model: object | None = None

    @property
    def data_seed(self) -> int:
        """Seed of the data."""
        return self.seed if self.data is None else self.data


@dataclass(frozen=True, slots=True, kw_only=True)
class StartingPoint:
    """What training goes on from: `steps` that have been run, with the numbers, from 0, of those that were `skipped`
    because gradients overflowed, their mean `losses`, and the `counters` of the model's kernels; `restore` puts a
    rank's states of then into its buffers.
    `loses`: why these states need not agree with the unsharded model (empty: but for rounding they do), where another
    schedule led to them."""

    steps: int
    skipped: frozenset[int]
    losses: tuple[float, ...]
    restore: Callable[[RankContext], None]
    counters: Mapping[str, int] = field(default_factory=dict)
    loses: str = ""
