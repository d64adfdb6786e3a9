"""The optimizer of the unsharded model, on whole tensors: torch's Adam, or LAMB, states in the schedule's types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from simfrontier.core.program import Schedule, TensorRole
from simfrontier_real.train.training_settings import Adam

_NARROW: Final = {"fp16": "float16", "bf16": "bfloat16", "moments_bf16": "bfloat16"}


def narrow_states(schedule: Schedule) -> dict[TensorRole, str]:
    """The types of masters and moments (role `optimizer`) that are kept in 16 bits."""
    held = {tensor.role: tensor.dtype for tensor in schedule.tensors.values() if tensor.role in ("master", "optimizer")}
    return {role: dtype for role, dtype in held.items() if dtype in _NARROW}


class ReferenceOptimizer:
    """Steps whole weights by their gradients, as the schedule's meta says: by Adam, or by LAMB (You et al., arXiv
    1904.00962): every tensor moves by its Adam step, scaled to the tensor's norm. Masters and moments that the schedule
    keeps in 16 bits are rounded to them after every step."""

    def __init__(self, schedule: Schedule, weights: Mapping[tuple[str, int], Any], adam: Adam) -> None:
        import torch

        self._weights, self._rate = list(weights.values()), adam.learning_rate
        self._is_lamb = schedule.meta.get("optimizer") == "lamb"
        self._adam = torch.optim.Adam(
            self._weights, lr=adam.learning_rate, betas=(adam.beta1, adam.beta2), eps=adam.epsilon, foreach=False
        )
        narrow = narrow_states(schedule)
        self._narrow = {role: getattr(torch, _NARROW[dtype]) for role, dtype in narrow.items()}

    def zero_grad(self) -> None:
        self._adam.zero_grad()

    def step(self) -> None:
        """Move every weight that has a gradient."""
        before = [weight.detach().clone() for weight in self._weights]
        self._adam.step()
        if self._is_lamb:
            for weight, old in zip(self._weights, before, strict=True):
                self._scale(weight, old)
        self._round()

    def _scale(self, weight: Any, old: Any) -> None:
        """Scale the move that Adam made to the norm of what it moved."""
        update = (old - weight.detach()) / self._rate
        lengths = float(old.norm()), float(update.norm())
        scale = lengths[0] / lengths[1] if min(lengths) > 0 else 1.0
        weight.data = old - self._rate * scale * update

    def _round(self) -> None:
        for weight in self._weights:
            if "master" in self._narrow:
                weight.data = weight.data.to(self._narrow["master"]).to(weight.dtype)
            held = self._adam.state[weight]  # empty of a weight that has had no gradient
            if "optimizer" in self._narrow and held:
                for key in ("exp_avg", "exp_avg_sq"):
                    held[key] = held[key].to(self._narrow["optimizer"]).to(weight.dtype)
