"""The unsharded reference: the model in one process with torch's autograd and optimizer, with which every plan must
agree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

import torch
from torch.nn import functional

from simfrontier.core.dtypes import num_moments
from simfrontier.core.program import Schedule, TensorRole
from simfrontier_real.ops.attention import NORM_EPSILON
from simfrontier_real.ops.kernels import RATE, mask
from simfrontier_real.ops.losses import MTP_SHARE
from simfrontier_real.train.models import batch, initial_weights, input_names, model_of
from simfrontier_real.train.training_settings import Adam, TrainingResult, TrainingSettings
from simfrontier_real.verify.gradients import whole_digests

_NARROW: Final = {"fp16": "float16", "bf16": "bfloat16", "moments_bf16": "bfloat16"}


def narrow_states(schedule: Schedule) -> dict[TensorRole, str]:
    """Return the types of those masters and moments (role `optimizer`) that are stored in 16 bits."""
    held = {tensor.role: tensor.dtype for tensor in schedule.tensors.values() if tensor.role in ("master", "optimizer")}
    return {role: dtype for role, dtype in held.items() if dtype in _NARROW}


class ReferenceOptimizer:
    """Updates whole weights from their gradients, by Adam, LAMB or Muon as the schedule's meta says. LAMB (You et al.,
    arXiv 1904.00962) scales the Adam update of each tensor to the tensor's norm. Muon (arXiv 2502.16982) updates the
    matrices of which the schedule keeps one moment by their orthogonal momentum, and Adam all else. Masters and moments
    that the schedule stores in 16 bits are rounded after every step."""

    def __init__(self, schedule: Schedule, weights: Mapping[tuple[str, int], Any], adam: Adam) -> None:
        self._weights, self._rate = list(weights.values()), adam.learning_rate
        states = [tensor for tensor in schedule.tensors.values() if tensor.role == "optimizer"]
        matrices = {tensor.weight for tensor in states if num_moments(tensor.dtype) == 1}
        self._momenta = {weight: torch.zeros_like(weight) for (name, _), weight in weights.items() if name in matrices}
        self._is_lamb = schedule.meta.get("optimizer") == "lamb"
        self._adam = torch.optim.Adam(
            [weight for weight in self._weights if weight not in self._momenta] or [torch.zeros(0)],
            lr=adam.learning_rate,
            betas=(adam.beta1, adam.beta2),
            eps=adam.epsilon,
            foreach=False,
        )
        narrow = narrow_states(schedule)
        self._narrow = {role: getattr(torch, _NARROW[dtype]) for role, dtype in narrow.items()}

    def zero_grad(self) -> None:
        for weight in self._weights:
            weight.grad = None

    def step(self) -> None:
        """Update every weight that has a gradient."""
        before = [weight.detach().clone() for weight in self._weights]
        self._adam.step()
        if self._is_lamb:
            for weight, old in zip(self._weights, before, strict=True):
                self._scale(weight, old)
        for weight, momentum in self._momenta.items():
            if weight.grad is not None:
                momentum.mul_(0.95).add_(weight.grad)
                step = _orthogonal(weight.grad + 0.95 * momentum)
                weight.data -= self._rate * 0.2 * math.sqrt(max(step.shape[-2:])) * step
        self._round()

    def _scale(self, weight: Any, old: Any) -> None:
        """Scale the Adam update of a tensor to the tensor's norm."""
        update = (old - weight.detach()) / self._rate
        lengths = float(old.norm()), float(update.norm())
        scale = lengths[0] / lengths[1] if min(lengths) > 0 else 1.0
        weight.data = old - self._rate * scale * update

    def _round(self) -> None:
        for weight in self._weights:
            if "master" in self._narrow:
                weight.data = weight.data.to(self._narrow["master"]).to(weight.dtype)
            if "optimizer" in self._narrow and weight in self._momenta:
                self._momenta[weight] = self._momenta[weight].to(self._narrow["optimizer"]).to(weight.dtype)
                continue
            held = self._adam.state[weight]  # empty of a weight that has had no gradient
            if "optimizer" in self._narrow and held:
                for key in ("exp_avg", "exp_avg_sq"):
                    held[key] = held[key].to(self._narrow["optimizer"]).to(weight.dtype)


def _orthogonal(values: Any) -> Any:
    """Apply to the singular values of matrices, scaled to a norm of 1, what Muon's five quintic iterations make of
    them."""
    left, singular, right = torch.linalg.svd(values, full_matrices=False)
    singular = singular / (singular.square().sum(-1, keepdim=True).sqrt() + 1e-7)
    for _ in range(5):
        singular = 3.4445 * singular - 4.7750 * singular**3 + 2.0315 * singular**5
    return left @ (singular[..., None] * right)


def train_unsharded(
    schedule: Schedule, training: TrainingSettings, dtype: str = "fp64", skipped: frozenset[int] = frozenset()
) -> TrainingResult:
    """Train the schedule's model unsharded, on the same data and from the same weights; the schedule only specifies the
    model.

    `dtype`: fp64 or fp32. Gradients are averaged over all micro-batches of a step and clipped to the norm in the
    settings. The steps in `skipped`, counted from 0, do not change weights and moments.
    """
    own = model_of(schedule)
    if own is not None:
        return own.train_unsharded(schedule, training, dtype, skipped)
    kind = {"fp64": torch.float64, "fp32": torch.float32}[dtype]
    start = initial_weights(schedule, training.seed)
    frozen = {tensor.name for tensor in schedule.tensors.values() if tensor.is_frozen}
    weights = {
        key: torch.tensor(values, dtype=kind, requires_grad=key[0] not in frozen) for key, values in start.items()
    }
    adam = training.adam
    optimizer = ReferenceOptimizer(schedule, weights, adam)
    grad_accum = int(schedule.meta.get("grad_accum", 1))
    model = {"tokens": _gpt, "inputs": _mlp}[input_names(schedule)[0]]
    losses, digests, num_clipped = [], [], 0
    directions: dict[tuple[str, int], Any] = {}
    for step in range(training.steps):
        optimizer.zero_grad()
        total = 0.0
        for micro in range(grad_accum):
            data = batch(schedule, training.data_seed, step, micro)
            logits = model(schedule, weights, data.inputs, kind, micro)
            first, *further = (_cross_entropy(each, labels) for each, labels in zip(logits, data.labels, strict=True))
            loss = (first + MTP_SHARE * sum(further) / max(1, len(further))) / grad_accum
            loss.backward()
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


def _cross_entropy(logits: Any, classes: Any) -> Any:
    labels = torch.as_tensor(classes).reshape(-1)
    return functional.cross_entropy(logits.reshape(labels.shape[0], -1), labels)


def _gpt(
    schedule: Schedule, weights: dict[tuple[str, int], Any], tokens: tuple[Any, ...], kind: Any, micro: int
) -> list[Any]:
    """Compute the logits of a decoder as specified by the schedule's meta: `residual` (attention and MLP in parallel or
    sequential), `norm`, `gated`, `kv_heads`, `positions`, `embedding_norm`, `dropout`, `qk_norm`, and the sizes of
    latent attention. A model without a head weight uses the embedding's weight. Each depth of multi-token prediction
    has tokens and logits of its own."""
    meta = schedule.meta
    num_layers, heads = int(meta["num_layers"]) - len(tokens) + 1, int(meta["heads"])
    groups, positions = int(meta.get("kv_heads", heads)), meta.get("positions", "none")
    embedded = [weights["embedding.weight", 0][torch.as_tensor(each)] for each in tokens]
    x = embedded[0]
    batch_size, length, _ = x.shape

    def linear(values: Any, module: str, layer: int) -> Any:
        return functional.linear(values, _matrix(weights, module, layer), weights.get((f"{module}.bias", layer)))

    def norm(values: Any, module: str, layer: int = 0) -> Any:
        scale, shift = weights[f"{module}.weight", layer], weights.get((f"{module}.bias", layer))
        if meta.get("norm") == "rmsnorm":
            return functional.rms_norm(values, scale.shape, scale, NORM_EPSILON)
        return functional.layer_norm(values, scale.shape, scale, shift, NORM_EPSILON)

    def bent(values: Any) -> Any:
        if not meta.get("gated"):
            return functional.gelu(values, approximate="tanh")
        return functional.silu(values[..., 0::2]) * values[..., 1::2]

    def clamped(values: Any) -> Any:
        gate, up = values[..., 0::2].clamp(max=7), values[..., 1::2].clamp(-7, 7)
        return gate * torch.sigmoid(1.702 * gate) * (up + 1)

    def dropped(values: Any, name: str, layer: int) -> Any:
        if not meta.get("dropout"):
            return values
        return (
            values * torch.as_tensor(mask(f"{name}.dropout", layer, micro, tuple(values.shape))).to(kind) / (1 - RATE)
        )

    if positions == "learned":
        x = x + weights["positions.weight", 0][:length]
    if meta.get("embedding_norm"):
        x = norm(x, "embedding_norm")
    later = torch.ones(length, length, dtype=torch.bool).triu(1)
    added = torch.zeros(heads, length, length, dtype=kind).masked_fill(later, -math.inf)
    if positions == "alibi":
        places = torch.arange(length, dtype=kind)
        added = added + _alibi(heads, kind)[:, None, None] * (places[None, :] - places[:, None])
    is_parallel = meta.get("residual", "parallel") == "parallel"

    def block(x: Any, layer: int) -> Any:
        heads_of = _latent_heads if meta.get("nope_features") else _heads
        query, key, value = heads_of(
            norm(x, "ln1", layer), partial(linear, layer=layer), partial(norm, layer=layer), meta
        )
        key, value = (part.repeat_interleave(heads // groups, dim=1) for part in (key, value))
        if meta.get("attention") == "plain" and meta.get("dropout"):
            scores = query @ key.transpose(2, 3) / math.sqrt(query.shape[-1]) + added
            seen = dropped(scores.softmax(-1), "probabilities", layer) @ value
        else:
            seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=added)
        attention = linear(seen.transpose(1, 2).reshape(batch_size, length, -1), "dense", layer)
        attention = dropped(attention, "attention", layer)
        middle = x + attention
        stream = x if is_parallel else middle
        inside = norm(stream, "ln2", layer)
        if ("router.weight", layer) in weights:
            return middle + _experts(schedule, weights, inside, layer, clamped if meta.get("expert_clamp") else bent)
        return middle + dropped(linear(bent(linear(inside, "h_to_4h", layer)), "4h_to_h", layer), "mlp", layer)

    for layer in range(num_layers):
        x = block(x, layer)
    outs = [norm(x, "final_norm")]
    for layer, after in enumerate(embedded[1:], num_layers):
        joined = torch.cat([norm(after, "enorm", layer), norm(x, "hnorm", layer)], dim=-1)
        x = norm(block(linear(joined, "eh_proj", layer), layer), "mtp_norm", layer)
        outs.append(x)
    table = weights["head.weight" if ("head.weight", 0) in weights else "embedding.weight", 0]
    return [out @ table.T for out in outs]


def _matrix(weights: dict[tuple[str, int], Any], module: str, layer: int) -> Any:
    """Return the matrix of a linear module, or those of experts, with the product of its adapter, if it has one."""
    whole, down = weights[f"{module}.weight", layer], weights.get((f"{module}.lora_a.weight", layer))
    return whole if down is None else whole + weights[f"{module}.lora_b.weight", layer] @ down


def _heads(rows: Any, linear: Any, norm: Any, meta: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return queries, keys and values, each [b, head, s, feature], from one product."""
    heads = int(meta["heads"])
    groups = int(meta.get("kv_heads", heads))
    qkv = linear(rows, "qkv").view(*rows.shape[:2], groups, heads // groups + 2, -1)
    query, key, value = (part.transpose(1, 2) for part in (qkv[..., :-2, :].flatten(2, 3), *qkv[..., -2:, :].unbind(3)))
    if meta.get("qk_norm"):
        query, key = norm(query, "query_norm"), norm(key, "key_norm")
    if meta.get("positions") == "rotary":
        query, key = _rotated(query), _rotated(key)
    return query, key, value


def _latent_heads(rows: Any, linear: Any, norm: Any, meta: Mapping[str, Any]) -> tuple[Any, Any, Any]:
    """Return queries, keys and values, each [b, head, s, feature], from latents (DeepSeek-V2)."""
    heads, rope, nope = (int(meta[key]) for key in ("heads", "rope_features", "nope_features"))
    down = linear(rows, "kv_down")
    shared = _rotated(down[..., -rope:].unsqueeze(1)).expand(-1, heads, -1, -1)

    def by_head(values: Any) -> tuple[Any, Any]:
        """Return the features of each head that are not rotated, and the others."""
        parts = values.unflatten(-1, (heads, -1)).transpose(1, 2)
        return parts[..., :nope], parts[..., nope:]

    if meta.get("q_rank"):
        rows = norm(linear(rows, "query_down"), "query_norm")
    query, rotated = by_head(linear(rows, "query_up"))
    key, value = by_head(linear(norm(down[..., :-rope], "kv_norm"), "kv_up"))
    return torch.cat([query, _rotated(rotated)], -1), torch.cat([key, shared], -1), value


def _experts(schedule: Schedule, weights: dict[tuple[str, int], Any], values: Any, layer: int, bent: Any) -> Any:
    """Compute experts one after the other, sample by sample: each takes the first rows that chose it, as many as it has
    places."""
    choices, places = schedule.tensors["routing.choices"].shape[-1], schedule.tensors["dispatched"].shape[2]
    up, down = (_matrix(weights, f"experts.{side}", layer) for side in ("up", "down"))
    scores, chosen = functional.linear(values, weights["router.weight", layer]).topk(choices, dim=-1)
    if schedule.meta.get("router") == "sigmoid":
        shares = scores.sigmoid() / scores.sigmoid().sum(-1, keepdim=True)
    else:
        shares = scores.softmax(-1)
    out = []
    for sample, share, choice in zip(values, shares, chosen, strict=True):
        total = torch.zeros_like(sample)
        for expert in range(up.shape[0]):
            position, at = (choice == expert).nonzero(as_tuple=True)
            position, at = position[:places], at[:places]
            made = bent(sample[position] @ up[expert].T) @ down[expert].T
            total = total.index_add(0, position, made * share[position, at, None])
        out.append(total)
    routed = torch.stack(out)
    if ("shared.up.weight", layer) not in weights:
        return routed
    inner = bent(functional.linear(values, _matrix(weights, "shared.up", layer)))
    return routed + functional.linear(inner, _matrix(weights, "shared.down", layer))


def _rotated(values: Any) -> Any:
    """Apply rotary embeddings to [b, head, s, feature]: features i and i + d/2 form a complex number, rotated by the
    angle s · 10000^(−2i/d)."""
    half = values.shape[-1] // 2
    pace = 10_000.0 ** (-torch.arange(half, dtype=torch.float64) / half)
    angles = torch.outer(torch.arange(values.shape[2], dtype=torch.float64), pace)
    turned = torch.complex(values[..., :half], values[..., half:]) * torch.polar(torch.ones_like(angles), angles).to(
        torch.complex(values[..., :1], values[..., :1]).dtype
    )
    return torch.cat([turned.real, turned.imag], dim=-1)


def _alibi(heads: int, kind: Any) -> Any:
    """Return ALiBi's slopes as published: powers of 2^(−8/n); for n other than powers of two, completed with slopes of
    2n."""

    def of_power(n: int) -> list[float]:
        start = 2.0 ** (-(2.0 ** -(math.log2(n) - 3)))
        return [start**number for number in range(1, n + 1)]

    below = 2 ** math.floor(math.log2(heads))
    every = of_power(below) + of_power(2 * below)[0::2][: heads - below]
    return torch.tensor(every, dtype=kind)


def _mlp(
    schedule: Schedule, weights: dict[tuple[str, int], Any], inputs: tuple[Any, ...], kind: Any, micro: int
) -> list[Any]:
    """Compute the logits of an MLP: a linear module and GELU, equal residual layers, and a linear head without bias."""

    def linear(values: Any, module: str, layer: int = 0) -> Any:
        return functional.linear(values, weights[f"{module}.weight", layer], weights.get((f"{module}.bias", layer)))

    x = functional.gelu(linear(torch.as_tensor(inputs[0]).to(kind), "embedding"), approximate="tanh")
    for layer in range(int(schedule.meta["num_layers"])):
        inner = functional.gelu(linear(x, "h_to_4h", layer), approximate="tanh")
        x = x + linear(inner, "4h_to_h", layer)
    return [linear(x, "head")]
