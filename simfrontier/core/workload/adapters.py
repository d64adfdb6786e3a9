"""Adapters of low rank (LoRA, arXiv 2106.09685): a model whose weights are frozen, with two small trained matrices
beside each of some linear modules.

A module y = x Wᵀ becomes y = x Wᵀ + (x Aᵀ) Bᵀ, with A (rank × inputs) and B (outputs × rank); the label R stands for a
feature of an adapter. Frozen weights have no gradients, so what makes only these is left out, and so is all of the
backward whose results no trained weight needs: below the first adapter. The factor alpha / rank belongs to the
addition. Not modelled: dropout of an adapter's input. Megatron-Bridge cuts ranks, too, over the axis of tensor
parallelism (peft/utils.py, ParallelLinearAdapter); here an adapter is cut as its module, by inputs or outputs alone.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from simfrontier.core.program import OpName, Part
from simfrontier.core.workload.graph import MatmulLabels, Phase, Use, Value, Weight, Workload, WorkOp

LoraPart = Literal["qkv", "proj", "mlp"]
MODULES: Final[Mapping[LoraPart, tuple[str, ...]]] = {
    "qkv": ("qkv", "query_down", "query_up", "kv_down", "kv_up"),
    "proj": ("dense",),
    "mlp": ("h_to_4h", "4h_to_h", "shared.up", "shared.down", "experts.up", "experts.down"),
}
"""Linear modules of each part of a GPT's layer."""
RANK: Final = "R"


def with_adapters(work: Workload, rank: int, parts: Collection[LoraPart]) -> Workload:
    """Return the model with adapters of a rank beside the linear modules of these parts of its layers, and all other
    weights frozen."""
    modules = {module for part in parts for module in MODULES[part]}
    adapted = {name: w for name, w in work.weights.items() if w.module in modules and w.parameter == "weight"}
    made = _Adapters(work, rank, adapted)
    phases = {phase: made.phase(phase) for phase in (work.embedding, *work.kinds, work.head)}
    model = replace(
        work,
        embedding=phases[work.embedding],
        layers=tuple(phases[layer] for layer in work.layers),
        head=phases[work.head],
        values={**work.values, **made.values},
        weights={**{name: replace(w, is_frozen=True) for name, w in work.weights.items()}, **made.weights},
        traits={**work.traits, "lora_rank": rank},
    )
    return _without_idle_backward(model)


@dataclass
class _Adapters:
    """Builder of the adapters of a model; `values` and `weights` are those that it adds."""

    work: Workload
    rank: int
    adapted: Mapping[str, Weight]
    values: dict[str, Value] = field(default_factory=dict)
    weights: dict[str, Weight] = field(default_factory=dict)

    def phase(self, phase: Phase) -> Phase:
        forward = {op.named.module: op for op in phase.forward if self._is_adapted(op.weights)}
        return Phase(
            forward=tuple(new for op in phase.forward for new in self._forward(op)),
            backward=tuple(new for op in phase.backward for new in self._backward(op, forward)),
        )

    def _is_adapted(self, weights: tuple[str, ...]) -> bool:
        return not self.adapted.keys().isdisjoint(weights)

    def _forward(self, op: WorkOp) -> tuple[WorkOp, ...]:
        if not self._is_adapted(op.weights):
            return (op,)
        assert op.matmul is not None, f"{op.name} is no linear module"
        batch, m, n, k = op.matmul
        down, up = self._declare(op)
        ((source, _),), low = op.reads, f"{op.named.module}.low"
        self._value(source, low, (*batch, *m, RANK))
        adapted = self._forms(op.writes, "adapter")
        return (
            replace(op, writes=self._forms(op.writes, "frozen")),
            self._product(op, down, None, (batch, m, (RANK,), k), op.reads, ((low, 0),)),
            self._product(op, up, None, (batch, m, n, (RANK,)), ((low, 0),), adapted),
            *self._sums(op.writes),
        )

    def _declare(self, op: WorkOp) -> tuple[Weight, Weight]:
        """Return the two matrices of the adapter of a module, declared."""
        weight = self.adapted[next(name for name in op.weights if name in self.adapted)]
        *outer, n, k = zip(weight.dims, weight.shape, strict=True)
        down, up = (
            replace(
                weight,
                module=f"{weight.module}.{side}",
                dims=tuple(label for label, _ in (*outer, *sides)),
                shape=tuple(size for _, size in (*outer, *sides)),
            )
            for side, sides in (("lora_a", ((RANK, self.rank), k)), ("lora_b", (n, (RANK, self.rank))))
        )
        self.weights |= {down.name: down, up.name: up}
        return down, up

    def _backward(self, op: WorkOp, forward: Mapping[str, WorkOp]) -> tuple[WorkOp, ...]:
        """Return what takes the place of an op: nothing, if it makes only gradients of frozen weights; where it makes
        the gradient of the input of an adapted module, that, and the backward of the adapter."""
        source = forward.get(op.named.module)
        if source is None or op.named.part != "dgrad":
            return () if op.gradients and not op.writes else (replace(op, gradients=()),)
        assert source.matmul is not None, f"{source.name} is no linear module"
        batch, m, n, k = source.matmul
        down, up = self._declare(source)
        low, made = f"{source.named.module}.low", f"d.{source.named.module}.low"
        self._value(low, made, self.values[low].dims)
        of_low: tuple[Use, ...] = ((made, 0),)
        adapted = self._forms(op.writes, "adapter")
        return (
            replace(op, writes=self._forms(op.writes, "frozen")),
            self._product(source, up, "dgrad", (batch, m, (RANK,), n), op.reads, of_low),
            self._product(source, up, "wgrad", (batch, n, (RANK,), m), (*op.reads, (low, 0)), ()),
            self._product(source, down, "dgrad", (batch, m, k, (RANK,)), of_low, adapted),
            self._product(source, down, "wgrad", (batch, (RANK,), k, m), (*of_low, *source.reads), ()),
            *self._sums(op.writes),
        )

    def _product(
        self,
        like: WorkOp,
        weight: Weight,
        part: Part | None,
        matmul: MatmulLabels,
        reads: tuple[Use, ...],
        writes: tuple[Use, ...],
    ) -> WorkOp:
        """Return a matrix product with a matrix of an adapter, or one that makes the gradient of this matrix, of the
        kind of the product of its module and with the sizes of the module."""
        sizes = {**dict(like.iteration), RANK: self.rank}
        iteration = tuple((label, sizes[label]) for labels in matmul for label in labels)
        return WorkOp(
            named=OpName(weight.module, part, streams=like.named.streams),
            kind=like.kind,
            iteration=iteration,
            reads=reads,
            writes=writes,
            matmul=matmul,
            flops=2 * math.prod(size for _, size in iteration),
            weights=() if part == "wgrad" else (weight.name,),
            gradients=(weight.name,) if part == "wgrad" else (),
        )

    def _value(self, like: str, name: str, dims: tuple[str, ...]) -> None:
        """Declare a value with labels of another one, and perhaps the rank."""
        value = self.work.values.get(like) or self.values[like]
        sizes = {**dict(zip(value.dims, value.shape, strict=True)), RANK: self.rank}
        self.values[name] = replace(value, local=name, dims=dims, shape=tuple(sizes[label] for label in dims))

    def _forms(self, uses: tuple[Use, ...], form: str) -> tuple[Use, ...]:
        """Return results of a module as those of its frozen weights or of its adapter, declared."""
        for name, _ in uses:
            self._value(name, f"{name}.{form}", self.work.values[name].dims)
        return tuple((f"{name}.{form}", layer) for name, layer in uses)

    def _sums(self, uses: tuple[Use, ...]) -> Iterable[WorkOp]:
        """Yield the additions of both parts of a module's results."""
        for name, layer in uses:
            value = self.work.values[name]
            yield WorkOp(
                named=OpName(f"{name}.sum"),
                kind="add",
                iteration=tuple(zip(value.dims, value.shape, strict=True)),
                reads=((f"{name}.frozen", layer), (f"{name}.adapter", layer)),
                writes=((name, layer),),
            )


def _without_idle_backward(work: Workload) -> Workload:
    """Return the model without ops of the backward that no gradient of a weight needs. A layer whose results only
    layers below it would need has a phase of its own."""
    embedding, wanted = _needed(work.embedding, frozenset())
    wanted = frozenset(name for op in embedding.backward for name, _ in op.reads)
    known: dict[tuple[Phase, frozenset[str]], tuple[Phase, frozenset[str]]] = {}
    layers = []
    for layer in work.layers:
        if (layer, wanted) not in known:
            known[layer, wanted] = _needed(layer, wanted)
        phase, wanted = known[layer, wanted]
        layers.append(phase)
    head, _ = _needed(work.head, wanted)
    return replace(work, embedding=embedding, layers=tuple(layers), head=head)


def _needed(phase: Phase, wanted: frozenset[str]) -> tuple[Phase, frozenset[str]]:
    """Return a phase with those ops of its backward that make gradients of weights, or lead to these or to values that
    are `wanted` below; and what they want of the phase above."""
    live, kept = set(wanted), list[WorkOp]()
    for op in reversed(phase.backward):
        if op.gradients or op.written_states or any(name in live for name, _ in op.writes):
            kept.append(op)
            live |= {name for name, layer in op.reads if not layer}
    above = frozenset(name for op in kept for name, layer in op.reads if layer)
    return replace(phase, backward=tuple(reversed(kept))), above
