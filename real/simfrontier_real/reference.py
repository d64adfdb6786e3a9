"""The unsharded model in one process, by torch's autograd and torch's Adam: what every plan must agree with."""

from __future__ import annotations

import math
from typing import Any

from simfrontier.schedule import Schedule
from simfrontier_real.data import batch, input_names
from simfrontier_real.gradients import whole_digests
from simfrontier_real.kernels import NORM_EPSILON
from simfrontier_real.models import model_of
from simfrontier_real.states import initial_weights
from simfrontier_real.train import TrainingResult, TrainingSettings


def train_unsharded(
    schedule: Schedule, training: TrainingSettings, dtype: str = "fp64", skipped: frozenset[int] = frozenset()
) -> TrainingResult:
    """Train the schedule's model on the same data from the same weights; the schedule only says which model.

    `dtype`: fp64 or fp32. Gradients are averaged over all micro-batches of a step and clipped to the settings' norm.
    Steps of the numbers in `skipped`, counted from 0, leave weights and moments as they are.
    """
    own = model_of(schedule)
    if own is not None:
        return own.train_unsharded(schedule, training, dtype, skipped)
    import torch

    kind = {"fp64": torch.float64, "fp32": torch.float32}[dtype]
    start = initial_weights(schedule, training.seed)
    weights = {key: torch.tensor(values, dtype=kind, requires_grad=True) for key, values in start.items()}
    adam = training.adam
    optimizer = torch.optim.Adam(
        weights.values(), lr=adam.learning_rate, betas=(adam.beta1, adam.beta2), eps=adam.epsilon, foreach=False
    )
    grad_accum = int(schedule.meta.get("grad_accum", 1))
    model = {"tokens": _gpt, "inputs": _mlp}[input_names(schedule)[0]]
    losses, digests, num_clipped = [], [], 0
    directions: dict[tuple[str, int], Any] = {}
    for step in range(training.steps):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(grad_accum):
            data = batch(schedule, training.data_seed, step, micro)
            logits = model(schedule, weights, data.inputs, kind)
            labels = torch.as_tensor(data.labels).reshape(-1)
            loss = torch.nn.functional.cross_entropy(logits.reshape(labels.shape[0], -1), labels) / grad_accum
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        gradients = {key: weight.grad for key, weight in weights.items() if weight.grad is not None}
        digests.append(whole_digests(((key, each.double().numpy()) for key, each in gradients.items()), directions))
        norm = math.sqrt(sum(float((gradient * gradient).sum()) for gradient in gradients.values()))
        factor = min(1.0, adam.clip / norm) if norm > 0 else 1.0
        num_clipped += factor < 1.0
        for gradient in gradients.values():
            gradient.mul_(factor)
        if step not in skipped:
            optimizer.step()
        losses.append(total)
    held = {key: weight.detach().double().numpy() for key, weight in weights.items()}
    return TrainingResult(tuple(losses), held, gradients=tuple(digests), clipped_steps=num_clipped)


def _gpt(schedule: Schedule, weights: dict[tuple[str, int], Any], tokens: Any, kind: Any) -> Any:
    """A decoder without rotary embedding; `residual` of the schedule's meta: how attention and MLP are on the
    residual stream, parallel (side by side) or sequential. Without a head of its own the embedding's weight is used."""
    import torch
    from torch.nn import functional

    num_layers, heads = int(schedule.meta["num_layers"]), int(schedule.meta["heads"])
    x = weights["embedding.weight", 0][torch.as_tensor(tokens)]
    batch_size, length, hidden = x.shape

    def linear(values: Any, module: str, layer: int) -> Any:
        return functional.linear(values, weights[f"{module}.weight", layer], weights.get((f"{module}.bias", layer)))

    def norm(values: Any, module: str, layer: int = 0) -> Any:
        scale, shift = weights[f"{module}.weight", layer], weights[f"{module}.bias", layer]
        return functional.layer_norm(values, (hidden,), scale, shift, NORM_EPSILON)

    is_parallel = schedule.meta.get("residual", "parallel") == "parallel"
    for layer in range(num_layers):
        qkv = linear(norm(x, "ln1", layer), "qkv", layer).view(batch_size, length, heads, 3, -1)
        query, key, value = (part.transpose(1, 2) for part in qkv.unbind(3))
        seen = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        attention = linear(seen.transpose(1, 2).reshape(batch_size, length, hidden), "dense", layer)
        middle = x + attention
        stream = x if is_parallel else middle
        inner = functional.gelu(linear(norm(stream, "ln2", layer), "h_to_4h", layer), approximate="tanh")
        x = middle + linear(inner, "4h_to_h", layer)
    out = norm(x, "final_norm")
    return linear(out, "head", 0) if ("head.weight", 0) in weights else out @ weights["embedding.weight", 0].T


def _mlp(schedule: Schedule, weights: dict[tuple[str, int], Any], inputs: Any, kind: Any) -> Any:
    """A linear module and GELU, equal residual layers, and a linear head without bias."""
    import torch
    from torch.nn import functional

    def linear(values: Any, module: str, layer: int = 0) -> Any:
        return functional.linear(values, weights[f"{module}.weight", layer], weights.get((f"{module}.bias", layer)))

    x = functional.gelu(linear(torch.as_tensor(inputs).to(kind), "embedding"), approximate="tanh")
    for layer in range(int(schedule.meta["num_layers"])):
        inner = functional.gelu(linear(x, "h_to_4h", layer), approximate="tanh")
        x = x + linear(inner, "4h_to_h", layer)
    return linear(x, "head")
