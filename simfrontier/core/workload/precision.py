"""Precisions: the types of the numbers that a model is trained in."""

from __future__ import annotations

from dataclasses import dataclass, replace

from simfrontier.base.errors import InputError, nearest


@dataclass(frozen=True, slots=True, kw_only=True)
class Precision:
    """Types of a model's numbers.

    `model`: weights, activations, and gradients as they are made. `gradients`: what they are added up in over the
    micro-batches of a step, and what the optimizer reads. `master`: the weights that the optimizer steps. `moments`:
    each of its two moments. `wide`: the loss's logits, sums over all ranks.
    """

    name: str
    model: str
    gradients: str
    master: str
    moments: str
    wide: str

    @property
    def is_mixed(self) -> bool:
        """Whether the model's type is narrower than that of sums."""
        return self.model != self.wide

    def keeping(self, gradients: str | None = None, master: str | None = None, moments: str | None = None) -> Precision:
        """The same with sums of gradients, masters and moments in other types (None: as they are). Raises InputError
        where one is neither the model's nor the wide one, or moments are in fp16, in which squares of gradients vanish.

        bf16 masters and moments are DeepSpeed's `bf16_master_weights_and_grads` and `bf16_optimizer_states`
        (github.com/deepspeedai/DeepSpeedExamples, training/bf16_master_weight).
        """
        given = {"gradients": gradients, "master": master, "moments": moments}
        chosen = {key: dtype for key, dtype in given.items() if dtype is not None}
        for key, dtype in chosen.items():
            allowed = dict.fromkeys((self.model, self.wide))
            if key == "moments" and self.model == "fp16":
                del allowed["fp16"]
            if dtype not in allowed:
                words = " or ".join(f'"{each}"' for each in allowed)
                raise InputError(f'model.{key} = "{dtype}" of a model in {self.model}; allowed: {words}')
        return replace(self, **chosen)


PRECISIONS: dict[str, Precision] = {
    name: Precision(name=name, model=name, gradients=name, master=wide, moments=wide, wide=wide)
    for name, wide in (("fp16", "fp32"), ("bf16", "fp32"), ("fp32", "fp32"), ("fp64", "fp64"))
}


def find_precision(name: str) -> Precision:
    """The named precision; raises InputError with the nearest name."""
    if name not in PRECISIONS:
        raise InputError(f"precision {name!r}: {nearest(name, PRECISIONS)}")
    return PRECISIONS[name]
