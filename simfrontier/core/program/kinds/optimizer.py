"""The end of a step: norms of gradients, the optimizer, and what follows the weights."""

from __future__ import annotations

from typing import Final

from simfrontier.core.program import traffic
from simfrontier.core.program.ir import GRADIENT_ROLES, TensorRole
from simfrontier.core.program.op_kind import AverageKind, NormKind, OfWeight, StepKind

_GRADIENT: Final = frozenset(GRADIENT_ROLES)
_NEW: Final[frozenset[TensorRole]] = frozenset({"weight", "gradient"})  # the weight, or what becomes of it
_UPDATE: Final[frozenset[TensorRole]] = frozenset({"update"})

NORM: Final = NormKind(name="norm2", words="norms of gradients")
AVERAGE: Final = AverageKind(name="ema", words="moving averages of weights")
STEPS: Final = (
    StepKind(
        name="adam",
        words="the optimizer (Adam)",
        traffic=traffic.adam,
        does="both",
        reads=OfWeight(_GRADIENT, "a gradient", ("master", "optimizer")),
        writes=OfWeight(_NEW, "a weight", ("master", "optimizer")),
        renewed=("optimizer", "master"),
    ),
    StepKind(
        name="lamb_update",
        words="the optimizer (LAMB before its scale)",
        traffic=traffic.lamb_update,
        does="update",
        reads=OfWeight(_GRADIENT, "a gradient", ("master", "optimizer")),
        writes=OfWeight(_UPDATE, "an update", ("norms", "optimizer")),
        renewed=("optimizer",),
    ),
    StepKind(
        name="lamb",
        words="the optimizer (LAMB)",
        traffic=traffic.lamb,
        does="apply",
        reads=OfWeight(_UPDATE, "an update", ("master", "norms")),
        writes=OfWeight(_NEW, "a weight", ("master",)),
        renewed=("master",),
    ),
)
KINDS: Final = (NORM, *STEPS, AVERAGE)
