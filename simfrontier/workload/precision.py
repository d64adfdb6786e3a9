"""Precisions: the types of the numbers that a model is trained in."""

from __future__ import annotations

from simfrontier.errors import InputError, nearest
from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Types of a model's numbers.

    `model`: weights, activations, gradients. `wide`: master weights, the loss's logits, sums over all ranks.
    `moments`: Adam's two moments of one element together (`moments`: two fp32, `moments64`: two fp64).
    """

    name: str
    model: str
    wide: str
    moments: str

    @property
    def is_mixed(self) -> bool:
        """Whether the model's type is narrower than that of sums and master weights."""
        return self.model != self.wide


PRECISIONS: dict[str, Precision] = {
    **{name: Precision(name=name, model=name, wide="fp32", moments="moments") for name in ("fp16", "bf16", "fp32")},
    "fp64": Precision(name="fp64", model="fp64", wide="fp64", moments="moments64"),
}


def find_precision(name: str) -> Precision:
    """The named precision; raises InputError with the nearest name."""
    if name not in PRECISIONS:
        raise InputError(f"precision {name!r}: {nearest(name, PRECISIONS)}")
    return PRECISIONS[name]
