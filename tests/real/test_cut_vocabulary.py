"""The loss where ranks have some of the classes each, in every way to form it: by hand and against the whole, finite
whatever the logits are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import Plain
from simfrontier.core.program import (
    Call,
    Collective,
    Compute,
    Mesh,
    Op,
    Placement,
    Ref,
    Role,
    Schedule,
    Tensor,
    model_kind,
)
from simfrontier.core.program.placement import PartialOp, partial
from simfrontier.core.workload import CrossEntropy
from simfrontier_real.ops import losses
from simfrontier_real.ops.moves import LOCAL_KERNELS
from simfrontier_real.train.training_settings import Adam, TrainingState
from tests.real.together import contexts_of, executing

CLASSES = 6
LABELS = np.array([[0, 5]])  # one sample of two positions
SPLIT = (("tensor", "v"),)
# of every way its ops: (name, what it reads, what it writes); what has no classes is reduced or merged at once
OPS: dict[CrossEntropy, tuple[tuple[str, str, str], ...]] = {
    "three-all-reduces": (
        ("loss.max", "logits", "loss.top"),
        ("loss.own", "logits loss.top", "loss.own loss.shifted"),
        ("loss.exp", "loss.shifted", "loss.exponentials"),
        ("loss.sum", "loss.exponentials", "loss.total"),
        ("loss", "loss.exponentials loss.own loss.total", "d.logits"),
    ),
    "fused-two": (
        ("loss.max", "logits", "loss.top"),
        ("loss.sums", "logits loss.top", "loss.terms"),
        ("loss", "logits loss.top loss.terms", "d.logits"),
    ),
    "one-gather": (("loss.online", "logits", "loss.online"), ("loss", "logits loss.online", "d.logits")),
    "mn-merge": (("loss.pairs", "logits", "loss.pairs"), ("loss", "logits loss.pairs", "d.logits")),
}
COUNTS = {"loss.terms": 2, "loss.online": 3, "loss.pairs": 3}  # numbers of a row; else one
WHOLE = ("logits", "d.logits", "loss.shifted", "loss.exponentials")
every_way = pytest.mark.parametrize("way", OPS)


def losing(num_ranks: int, way: CrossEntropy, dtype: str = "fp64") -> Schedule:
    """The loss of one sample of two positions over six classes, which `num_ranks` ranks share."""
    made = _Losing(dtype)
    for name, reads, writes in OPS[way]:
        made.op(name, reads.split(), writes.split())
    role = Role("all", (Call("head", 0, 0, tuple(made.ops)),))
    return Schedule(mesh=Mesh((("tensor", num_ranks),)), tensors=made.tensors, roles=(role,), pools={}, meta={})


class _Losing:
    """The ops of a way, with the moves that what they give asks for."""

    def __init__(self, dtype: str) -> None:
        self.dtype, self.ops = dtype, list[Op]()
        self.tensors: dict[str, Tensor] = {}
        self.tensor("logits", "logits", Placement((("tensor", 2),)))

    def tensor(self, name: str, value: str, placement: Placement, stacked: tuple[str, ...] = ()) -> Ref:
        last = CLASSES if value in WHOLE else COUNTS.get(value, 0)
        dims = ("b", "s", *("v" if value in WHOLE else "e" if last else ""))
        held = name in ("logits", "d.logits")
        shape = (1, 2, *([last] if last else []))
        self.tensors[name] = Tensor(
            name=name,
            shape=shape,
            dtype=self.dtype,
            role="activation",
            placement=placement,
            dims=dims,
            stacked=stacked,
            persistent=held,
            form_of=None if name == value else value,
        )
        return Ref(name)

    def op(self, name: str, reads: list[str], writes: list[str]) -> None:
        kind = name.replace(".", "_")
        how = model_kind(kind).reduction
        given = [
            self.tensor(value, value, Placement((("tensor", 2),)))
            if value in WHOLE
            else self.tensor(f"{value}.partial", value, partial(("tensor",), op=how))
            for value in writes
        ]
        every = (("b", 1), ("s", 2), ("v", CLASSES))
        refs = tuple(map(Ref, reads))
        self.ops.append(Compute(kind=kind, name=name, reads=refs, writes=tuple(given), iteration=every, split=SPLIT))
        for value, src in zip(writes, given, strict=True):
            if value not in WHOLE:
                self.move(value, src, how)

    def move(self, value: str, src: Ref, how: PartialOp) -> None:
        dst = self.tensor(value, value, Placement())
        if how != "merge":
            self.ops.append(self.call("all_reduce", src, dst))
            return
        stacked = self.tensor(f"{src.name}.stacked", value, Placement(), ("tensor",))
        self.ops += [
            self.call("all_gather", src, stacked),
            Compute(kind="merge", name="activation", reads=(stacked,), writes=(dst,)),
        ]

    def call(self, kind: Any, src: Ref, dst: Ref) -> Collective:
        return Collective(
            kind=kind, name="activation", axes=("tensor",), src=(src,), dst=(dst,), codec=Plain(self.dtype)
        )


def losses_of(num_ranks: int, logits: Any, way: CrossEntropy, dtype: str = "fp64") -> tuple[list[float], Any]:
    """(what each rank says the loss is, the gradient of all logits)."""
    made = losing(num_ranks, way, dtype)
    contexts, training_states = contexts_of(made), []
    for context, part in zip(contexts, np.split(logits, num_ranks, axis=-1), strict=True):
        backend = context.backend
        training_states.append(TrainingState(Adam(), grad_accum=1, labels={0: backend.array(LABELS, "int64")}))
        context.buffers.by_ref[Ref("logits")] = backend.array(part, dtype)
    kernels = [{**LOCAL_KERNELS, **losses.CrossEntropy(each).kernels()} for each in training_states]
    executing(contexts, kernels).run_step()
    gradient = np.concatenate([each.backend.numpy(each.buffers[Ref("d.logits")]) for each in contexts], axis=-1)
    return [sum(map(float, training_state.losses.values())) for training_state in training_states], gradient


def expected_of(logits: Any) -> tuple[float, Any]:
    """(the loss, its gradient) by scipy: log softmax at the labels, the mean of two positions; softmax less one-hot."""
    from scipy.special import log_softmax, softmax

    loss = -np.mean([log_softmax(logits[0, 0])[0], log_softmax(logits[0, 1])[5]])
    one_hot = np.zeros_like(logits)
    one_hot[0, 0, 0] = one_hot[0, 1, 5] = 1.0
    return float(loss), (softmax(logits, axis=-1) - one_hot) / 2


@every_way
@pytest.mark.parametrize("num_ranks", [2, 3, 6])
@pytest.mark.parametrize("height", [1.0, 1e4])
def test_cut_classes_give_the_loss_of_all_classes(num_ranks: int, height: float, way: CrossEntropy) -> None:
    """With logits of tens of thousands, exponentials of anything but differences to the largest would overflow, unless
    their powers of two are kept apart."""
    logits = height * np.random.default_rng(0).normal(size=(1, 2, CLASSES))
    by_rank, gradient = losses_of(num_ranks, logits, way)
    loss, expected = expected_of(logits)
    assert by_rank[0] == pytest.approx(loss, rel=1e-13) and not any(by_rank[1:])
    assert np.allclose(gradient, expected, rtol=1e-12, atol=1e-300)


@every_way
@pytest.mark.parametrize("height", [1.0, 1e4])
def test_float32_is_near_and_finite(height: float, way: CrossEntropy) -> None:
    """Logits are first rounded to float32, so that what is compared is the arithmetic alone."""
    logits = (height * np.random.default_rng(1).normal(size=(1, 2, CLASSES))).astype(np.float32)
    by_rank, gradient = losses_of(3, logits, way, "fp32")
    loss, expected = expected_of(logits.astype(np.float64))
    assert by_rank[0] == pytest.approx(loss, rel=2e-6)
    # a difference of logits of that height is known to 2^-24 of it
    assert np.allclose(gradient, expected, rtol=0, atol=1e-6 * max(1.0, height / 1e3))


def test_exponents_that_float32_does_not_hold_are_refused() -> None:
    """2^24 ln 2 = 1.16e7: beyond it not every whole number is a float32."""
    logits = np.full((1, 2, CLASSES), 2e7, np.float32)
    with pytest.raises(
        SimfrontierError, match=r"loss.pairs: a logit of 2e\+07 makes an exponent that float32 does not"
    ):
        losses_of(3, logits, "mn-merge", "fp32")
    assert losses_of(3, logits, "one-gather", "fp32")[0][0] == pytest.approx(np.log(CLASSES), rel=1e-6)
