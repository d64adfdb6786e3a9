"""Precisions: the types of the numbers that a model is trained in."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.errors import InputError, nearest
from simfrontier.records import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Types of a model's numbers.

    `model`: weights, activations, and gradients as they are made. `gradients`: what they are added up in over the
    micro-batches of a step, and what the optimizer reads. `wide`: master weights, the loss's logits, sums over all
    ranks. `moments`: Adam's two moments of one element together (`moments`: two fp32, `moments64`: two fp64).
    """

    name: str
    model: str
    gradients: str
    wide: str
    moments: str

    @property
    def is_mixed(self) -> bool:
        """Whether the model's type is narrower than that of sums and master weights."""
        return self.model != self.wide

    def adding_in(self, gradients: str) -> Precision:
        """The same with gradients that are added up in another type. Raises InputError where it is neither the model's
        nor the wide one."""
        allowed = tuple(dict.fromkeys((self.model, self.wide)))
        if gradients not in allowed:
            words = " or ".join(f'"{each}"' for each in allowed)
            raise InputError(f'model.gradients = "{gradients}" of a model in {self.model}; allowed: {words}')
        return replace(self, gradients=gradients)


PRECISIONS: dict[str, Precision] = {
    **{
        name: Precision(name=name, model=name, gradients=name, wide="fp32", moments="moments")
        for name in ("fp16", "bf16", "fp32")
    },
    "fp64": Precision(name="fp64", model="fp64", gradients="fp64", wide="fp64", moments="moments64"),
}


def find_precision(name: str) -> Precision:
    """The named precision; raises InputError with the nearest name."""
    if name not in PRECISIONS:
        raise InputError(f"precision {name!r}: {nearest(name, PRECISIONS)}")
    return PRECISIONS[name]
