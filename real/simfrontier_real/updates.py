"""What Adam should have made of the gradients that a rank was given, step after step: computed
separately, in float64."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from simfrontier.schedule import Ref
from simfrontier_real.arrays import Array
from simfrontier_real.gradients import Key, title
from simfrontier_real.rank_context import RankContext
from simfrontier_real.states import weight_of

if TYPE_CHECKING:
    from simfrontier_real.optimizer import Adam


@dataclass
class _ExpectedState:
    ref: Ref
    master: Any
    first: Any
    second: Any


class UpdateCheck:
    """Follows a rank's shares of the master weights. The gradients are compared with the unsharded ones elsewhere; this
    checks the optimizer's update by them, whatever codecs lose of them."""

    def __init__(self, context: RankContext, adam: Adam) -> None:
        self._context, self._adam, self._step = context, adam, 0
        self._expected: dict[Key, _ExpectedState] = {}
        for ref, values in context.buffers.by_ref.items():
            if context.schedule.tensors[ref.name].role == "master":
                master = self._line(values)
                self._expected[weight_of(context.schedule.tensors[ref.name]), ref.layer] = _ExpectedState(
                    ref, master, 0.0, 0.0
                )

    def error_of(self, gradients: Mapping[Key, Array], norm: float | None, was_skipped: bool) -> tuple[float, str]:
        """(how far a tensor's master is from where Adam should have taken it in the step that has just run, over the
        length of that move: the largest; of which tensor). `norm` is that of all gradients (None: each is clipped by
        its own)."""
        import numpy as np

        adam, worst = self._adam, (0.0, "")
        self._step += not was_skipped
        for key, expected in self._expected.items():
            master = self._line(self._context.buffers[expected.ref])
            move = np.zeros_like(master)
            if not was_skipped and key in gradients:
                gradient = self._line(gradients[key])
                length = math.sqrt(float(gradient @ gradient)) if norm is None else norm
                gradient = gradient * (min(1.0, adam.clip / length) if 0 < length < math.inf else 1.0)
                expected.first = adam.beta1 * expected.first + (1 - adam.beta1) * gradient
                expected.second = adam.beta2 * expected.second + (1 - adam.beta2) * gradient**2
                spread = np.sqrt(expected.second / (1 - adam.beta2**self._step)) + adam.epsilon
                move = -adam.learning_rate * expected.first / (1 - adam.beta1**self._step) / spread
            lacks = not was_skipped and key not in gradients
            far = float(np.linalg.norm(master - expected.master - move))
            # a tensor without a gradient does not move; it is measured against moves of a learning rate
            length = float(np.linalg.norm(move)) or adam.learning_rate * math.sqrt(master.size)
            error = math.inf if lacks or not math.isfinite(far) else far / length
            if error > worst[0]:
                worst = (error, title(key))
            expected.master = master
        return worst

    def _line(self, values: Array) -> Any:
        return self._context.backend.numpy(values).astype("float64").reshape(-1)
