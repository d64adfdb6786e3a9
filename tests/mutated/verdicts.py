"""What becomes of a mutated schedule: refused by `check`, or trained beside the sound one."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Schedule, check, from_json, to_json, traffic_bytes
from simfrontier.core.program.expansion import expand
from simfrontier.core.program.ir import Compute
from simfrontier.core.program.lifetime import peak_bytes
from simfrontier_real.train.models import initial_weights
from simfrontier_real.train.states import model_dtype
from simfrontier_real.train.train import train_in_one_process
from simfrontier_real.train.training_settings import TrainingResult
from simfrontier_real.verify.bounds import bounds_of
from simfrontier_real.verify.checks import _of_weights
from tests.mutated.cases import TRAINING, Case
from tests.mutated.facts import Mutation
from tests.real.lowerings import lowered_of

Verdict = Literal["refused", "same", "equal", "differs", "crashes"]


@dataclass(frozen=True, slots=True)
class Seen:
    """What became of one mutation; `said` is the finding, the difference or the error. `prices` names what training
    does not show but a simulation would: memory, flops, bytes."""

    case: str
    mutation: Mutation
    verdict: Verdict
    said: str
    prices: tuple[str, ...] = ()

    @property
    def is_hole(self) -> bool:
        return self.verdict in ("differs", "crashes")

    def __str__(self) -> str:
        return f"{self.verdict}: {self.case}: {self.mutation.kind}: {self.mutation}: {self.said}"


@dataclass
class Judge:
    """Holds mutations of one sound schedule against it."""

    name: str
    case: Case

    @cached_property
    def text(self) -> str:
        return to_json(self.case.make())

    @cached_property
    def sound(self) -> TrainingResult:
        schedule = from_json(self.text, self.name)
        assert str(check(schedule)) == "no findings"
        return self._trained(schedule)

    @cached_property
    def price(self) -> dict[str, tuple[int, ...]]:
        return price_of(from_json(self.text, self.name))

    def judge(self, mutation: Mutation) -> Seen:
        """Check a mutation and, if it passes, train it."""
        try:
            schedule = from_json(mutation.of(self.text), self.name)
            result = check(schedule).findings
        except SimfrontierError as error:
            return self._seen(mutation, "refused", str(error))
        except Exception as error:
            return self._seen(mutation, "crashes", f"check: {type(error).__name__}: {error}")
        if result:
            return self._seen(mutation, "refused", str(result[0]))
        if to_json(schedule) == self.text:
            return self._seen(mutation, "same", "the same schedule")
        try:
            ours = self._trained(schedule)
        except Exception as error:
            return self._seen(mutation, "crashes", f"{type(error).__name__}: {error}")
        apart = difference(ours, self.sound)
        is_equal = apart <= self.case.tolerance or (
            mutation.kind.startswith("mesh") and within_noise(schedule, ours, self.sound)
        )
        verdict: Verdict = "equal" if is_equal else "differs"
        now = price_of(schedule)
        return self._seen(mutation, verdict, f"{apart:.2g}", tuple(k for k in now if now[k] != self.price[k]))

    def _trained(self, schedule: Schedule) -> TrainingResult:
        lowered = lowered_of(schedule) if self.case.lowered else None
        return train_in_one_process(schedule, TRAINING, lowered=lowered)

    def _seen(self, mutation: Mutation, verdict: Verdict, message: str, prices: tuple[str, ...] = ()) -> Seen:
        return Seen(self.name, mutation, verdict, " ".join(message.split())[:300], prices)


def price_of(schedule: Schedule) -> dict[str, tuple[int, ...]]:
    """What each role takes: bytes at the peak, flops, bytes of memory moved by its ops, bytes on the wire."""
    out: dict[str, list[int]] = {"memory": [], "flops": [], "traffic": [], "wire": []}
    for role in schedule.roles:
        program = expand(schedule, role)
        out["memory"].append(peak_bytes(schedule, role).num_bytes)
        works = [op for op in program.ops if isinstance(op, Compute)]
        out["flops"].append(round(sum(op.local_flops(schedule.mesh) for op in works)))
        out["traffic"].append(sum(traffic_bytes(op, schedule.tensors, schedule.mesh) for op in works))
        moved = [ref for op in program.ops if not isinstance(op, Compute) for ref in (*op.reads, *op.writes)]
        out["wire"].append(sum(schedule.tensors[ref.name].local_bytes(schedule.mesh) for ref in moved))
    return {what: tuple(numbers) for what, numbers in out.items()}


def within_noise(schedule: Schedule, ours: TrainingResult, theirs: TrainingResult) -> bool:
    """Whether weights are as near as two schedules may be that code other pieces (on a mesh of another size): each is
    within the bounds that `train` allows it."""
    programs = tuple(expand(schedule, role) for role in schedule.roles)
    start = initial_weights(schedule, TRAINING.seed)
    bounds = bounds_of(schedule, programs, model_dtype(schedule), False, start, TRAINING.adam.learning_rate)
    return not bounds.is_exact and all(
        check.seen <= 2 * check.limit for check in _of_weights(ours.weights, theirs.weights, start, bounds)
    )


def difference(ours: TrainingResult, theirs: TrainingResult) -> float:
    """The largest relative difference of losses and weights; infinity where they cannot be compared."""
    import numpy as np

    if ours.weights.keys() != theirs.weights.keys() or len(ours.losses) != len(theirs.losses):
        return math.inf
    worst = max(abs(a - b) / abs(b) for a, b in zip(ours.losses, theirs.losses, strict=True))
    for key, values in theirs.weights.items():
        if ours.weights[key].shape != values.shape:
            return math.inf
        apart = float(np.abs(ours.weights[key] - values).max() / max(np.abs(values).max(), 1e-30))
        worst = max(worst, apart) if not math.isnan(apart) else math.inf
    return math.inf if math.isnan(worst) else worst
