"""The model's kernels against torch's autograd: whole steps, each op by itself, and numpy against torch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from simfrontier.core.program import GRADIENT_ROLES, Compute, Schedule, Tensor, expand
from simfrontier.core.workload import Checkpointing
from simfrontier_real.ops.arrays import Backend, numpy_backend, torch_backend
from simfrontier_real.ops.kernels import NORM_EPSILON
from simfrontier_real.ops.op_runner import RealOpRunner
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.initial_states import initial_weights, place
from simfrontier_real.train.models import batch
from simfrontier_real.train.reference import train_unsharded
from simfrontier_real.train.train import train_in_one_process
from tests.real.schedules import FAMILIES, distance, schedule, training
from tests.real.together import Training

MODELS = ("gpt", "mlp")


@dataclass
class Seen:
    """What the first op of each name read, wrote and added to, as torch tensors in the model's shapes."""

    ops: dict[str, dict[str, Any]] = field(default_factory=dict)
    gradients: dict[tuple[str, int], Any] = field(default_factory=dict)


def watched(made: Schedule, backend: Backend) -> Seen:
    """One step of one rank, with all that its kernels saw."""
    program, together = expand(made, made.roles[0]), Training(made, training(1), backend=backend)
    (rank,) = together.ranks
    seen = Seen()
    work = rank.step.op_runner
    assert isinstance(work, RealOpRunner)

    def watching(kernel: Callable[[RankContext, int, Compute], None]) -> Callable[[RankContext, int, Compute], None]:
        def run(site: RankContext, index: int, op: Compute) -> None:
            if op.kind == "adam":
                for ref in program.reads[index]:
                    if ref.name.endswith(".grad"):
                        tensor = made.tensors[ref.name]
                        line = np.asarray(site.buffers[ref])[: tensor.num_elements]
                        key = (ref.name.removesuffix(".grad"), ref.layer)
                        seen.gradients[key] = line.reshape(tensor.shape).copy()
            before = {title(made.tensors[ref.name]): shaped(site, ref) for ref in program.reads[index]}
            kernel(site, index, op)
            changed = (*program.writes[index], *program.accumulates[index])
            named = [(title(made.tensors[ref.name]), ref) for ref in changed]
            after = {f"{name}'" if name in before else name: shaped(site, ref) for name, ref in named}
            seen.ops.setdefault(op.name, {**before, **after})

        return run

    work.kernels = {kind: watching(kernel) for kind, kernel in work.kernels.items()}
    together.train_step(0)
    return seen


def title(tensor: Tensor) -> str:
    return tensor.quantity + ".grad" * (tensor.role in GRADIENT_ROLES)


def shaped(site: RankContext, ref: Any) -> Any:
    tensor, held = site.schedule.tensors[ref.name], site.buffers.by_ref.get(ref)
    if held is None or tensor.role == "optimizer":
        return None
    line = np.asarray(held).reshape(-1)[: tensor.num_elements]
    return torch.from_numpy(line.reshape(tensor.shape).copy())


@cache
def step(model: str) -> Seen:
    return watched(schedule(FAMILIES["ddp"], (1, 1, 1), checkpointing="none", model=model), numpy_backend())


def backward(out: Any, gradient: Any = None) -> None:
    """Torch's own gradients, into `grad` of what `out` came from."""
    torch.autograd.backward(out, gradient)


def near(ours: Any, theirs: Any) -> bool:
    return bool(torch.allclose(ours, theirs.detach(), rtol=1e-11, atol=1e-13))


# ── whole steps ──


@pytest.mark.parametrize("checkpointing", ["none", "full"])
@pytest.mark.parametrize("model", MODELS)
def test_gradients_of_a_step_are_those_of_finite_differences(model: str, checkpointing: Checkpointing) -> None:
    """Without any other autograd: (loss(w + h·d) − loss(w − h·d)) / 2h along a random direction d of each weight
    equals its gradient times d; the error of h = 1e-5 is about h² and ε/h, far below 1e-6."""
    made = schedule(FAMILIES["ddp"], (1, 1, 1), checkpointing=checkpointing, model=model)
    gradients = watched(made, numpy_backend()).gradients
    assert gradients.keys() == initial_weights(made, 0).keys()
    numbers = np.random.default_rng(0)
    for key in gradients:
        direction = numbers.normal(size=gradients[key].shape)
        up, down = (loss_at(made, key, sign * 1e-5 * direction) for sign in (1, -1))
        expected = (up - down) / 2e-5
        assert float((gradients[key] * direction).sum()) == pytest.approx(expected, abs=2e-8, rel=1e-6), key


def loss_at(made: Schedule, key: tuple[str, int], change: Any) -> float:
    """The loss of the first step with one weight moved, by the schedule's own forward kernels."""
    together = Training(made, training(1))
    (rank,) = together.ranks
    weights = initial_weights(made, 0)
    weights[key] = weights[key] + change
    place(rank.context, weights)
    together.train_step(0)
    return rank.loss()


@pytest.mark.parametrize("model", MODELS)
def test_a_first_step_without_clipping_moves_weights_as_torch_does(model: str) -> None:
    made = schedule(FAMILIES["ddp"], (1, 1, 1), 2, model=model)
    how = training(5, clip=1e9)
    assert distance(train_in_one_process(made, how).weights, train_unsharded(made, how).weights) <= 1e-10


@pytest.mark.parametrize("precision", ["fp64", "fp32"])
@pytest.mark.parametrize("model", MODELS)
def test_numpy_and_torch_kernels_agree(model: str, precision: str) -> None:
    made = schedule(FAMILIES["ddp"], (1, 1, 1), 2, model=model, precision=precision)
    ours, theirs = (train_in_one_process(made, training(3), backend) for backend in (numpy_backend(), torch_backend()))
    limit = {"fp64": 1e-10, "fp32": 2e-5}[precision]
    assert distance(ours.weights, theirs.weights) <= limit
    assert np.allclose(ours.losses, theirs.losses, rtol=limit)


# ── op by op: values the op really saw ──


def linear_of(name: str, seen: dict[str, Any], x: str, out: str) -> bool:
    return near(seen[out], functional.linear(seen[x], seen[f"{name}.weight"], seen.get(f"{name}.bias")))


LINEAR = {
    "qkv": ("ln1.out", "qkv.out"),
    "dense": ("context", "attention.out"),
    "h_to_4h": ("ln2.out", "h_to_4h.out"),
    "4h_to_h": ("gelu.out", "mlp.out"),
    "head": ("final_norm.out", "logits"),
}


@pytest.mark.parametrize("name", LINEAR)
def test_linear_modules(name: str) -> None:
    assert linear_of(name, step("gpt").ops[name], *LINEAR[name])


@pytest.mark.parametrize("name", ["dense", "h_to_4h", "4h_to_h", "head"])
def test_backward_of_linear_modules(name: str) -> None:
    ops = step("gpt").ops
    data, weights = ops[f"{name}.dgrad"], ops[f"{name}.wgrad"]
    above, source = [key for key in weights if not key.endswith((".grad", ".grad.raw"))]
    x = weights[source].requires_grad_()
    w = data[f"{name}.weight"].clone().requires_grad_()
    b = torch.zeros(w.shape[0], dtype=w.dtype, requires_grad=True)
    backward(functional.linear(x, w, b), weights[above])
    (out,) = [key for key in data if key not in (above, f"{name}.weight")]
    assert near(data[out], x.grad) and near(weights[f"{name}.weight.grad"], w.grad)
    if f"{name}.bias.grad" in weights:
        assert near(weights[f"{name}.bias.grad"], b.grad)


@pytest.mark.parametrize("name", ["ln1", "ln2", "final_norm"])
def test_layer_norm(name: str) -> None:
    seen = step("gpt").ops[name]
    expected = functional.layer_norm(seen["x"], (16,), seen[f"{name}.weight"], seen[f"{name}.bias"], NORM_EPSILON)
    assert near(seen[f"{name}.out"], expected)


@pytest.mark.parametrize("name", ["ln2", "final_norm"])
def test_backward_of_layer_norm(name: str) -> None:
    seen = step("gpt").ops[f"{name}.backward"]
    out = {"ln2": "d.mlp_path", "final_norm": "d.x"}[name]
    x, w = seen["x"].requires_grad_(), seen[f"{name}.weight"].requires_grad_()
    b = torch.zeros_like(w, requires_grad=True)
    backward(functional.layer_norm(x, (16,), w, b, NORM_EPSILON), seen[f"d.{name}"])
    assert near(seen[out], x.grad)
    assert near(seen[f"{name}.weight.grad"], w.grad) and near(seen[f"{name}.bias.grad"], b.grad)


def parts_of(qkv: Any) -> tuple[Any, ...]:
    """[batch, sequence, heads · 3 · 8] → query, key and value as [batch, heads, sequence, 8]."""
    batch_size, length, _ = qkv.shape
    return tuple(part.transpose(1, 2) for part in qkv.view(batch_size, length, 2, 3, 8).unbind(3))


def test_attention_is_torchs_causal_attention() -> None:
    ops = step("gpt").ops
    qkv = ops["scores"]["qkv.out"]
    query, key, value = parts_of(qkv)
    seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    assert near(ops["context"]["context"], seen.transpose(1, 2).reshape(qkv.shape[0], 8, 16))
    probabilities = ops["softmax"]["probabilities"]
    assert torch.equal(probabilities, probabilities.tril())  # nobody sees what comes later


def test_backward_of_attention() -> None:
    ops = step("gpt").ops
    qkv = ops["qkv.wgrad"]  # reads d.query, d.key, d.value
    values = ops["scores.dquery"]["qkv.out"].requires_grad_()
    query, key, value = parts_of(values)
    seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
    backward(seen.transpose(1, 2).reshape(values.shape[0], 8, 16), ops["context.dvalue"]["d.context"])
    for name, expected in zip(("query", "key", "value"), parts_of(values.grad), strict=True):
        ours = qkv[f"d.{name}"].view(-1, 8, 2, 8).transpose(1, 2)
        assert near(ours, expected), name
    # the gradient of qkv's weight is that of the three side by side, as qkv lays them out
    expected = values.grad.reshape(-1, 48).T @ qkv["ln1.out"].reshape(-1, 16)
    assert near(qkv["qkv.weight.grad"], expected)
    assert near(qkv["qkv.bias.grad"], values.grad.reshape(-1, 48).sum(0))
    assert near(ops["qkv.dgrad"]["d.ln1"], values.grad @ ops["qkv.dgrad"]["qkv.weight"])


@pytest.mark.parametrize("model", MODELS)
def test_gelu_and_its_backward(model: str) -> None:
    ops = step(model).ops
    forward, back = ops["gelu"], ops["gelu.backward"]
    assert near(forward["gelu.out"], functional.gelu(forward["h_to_4h.out"], approximate="tanh"))
    x = back["h_to_4h.out"].requires_grad_()
    backward(functional.gelu(x, approximate="tanh"), back["d.gelu"])
    assert near(back["d.h_to_4h"], x.grad)


@pytest.mark.parametrize("model", MODELS)
def test_loss_is_the_mean_cross_entropy(model: str) -> None:
    seen = step(model).ops["loss"]
    classes = seen["logits"].shape[-1]
    logits = seen["logits"].reshape(-1, classes).requires_grad_()
    data = batch(schedule(FAMILIES["ddp"], (1, 1, 1), checkpointing="none", model=model), 0, 0, 0)
    backward(functional.cross_entropy(logits, torch.from_numpy(data.labels).reshape(-1)))
    assert near(seen["d.logits"].reshape(-1, classes), logits.grad)


def test_lookup_and_its_backward() -> None:
    ops = step("gpt").ops
    forward, back = ops["embedding"], ops["embedding.wgrad"]
    tokens = forward["tokens"].long()
    assert len(tokens.unique()) < tokens.numel()  # a token comes twice, so its rows are added up
    assert near(forward["x"], functional.embedding(tokens, forward["embedding.weight"]))
    table = forward["embedding.weight"].requires_grad_()
    backward(functional.embedding(tokens, table), back["d.x"])
    assert near(back["embedding.weight.grad"], table.grad)
