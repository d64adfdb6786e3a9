"""The end of an optimizer step as ops and moves: last gradient reductions, gradient norm, optimizer update, and
publication of the new weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from simfrontier.core.plan.builder import ProgramBuilder
from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.program import token_tensor
from simfrontier.core.plan.tensors import Tensors
from simfrontier.core.program import Compute, Placement, Ref, Tensor, newton_schulz_flops, partial
from simfrontier.core.workload import EXPERTS, Optimizer, Weight

SCALARS = ("overflow", "gradient_norm")
Place = tuple[str, int, list[Weight]]  # a label, a layer, and the weights that are stepped together there


def declare_scalars(tensors: Tensors) -> None:
    """Declare the tensors of the scalars that are summed over all ranks: each is partial over every axis that divides a
    gradient read by the optimizer, and over the axis of the pipeline stages."""
    divided: set[str] = set()
    for name, states in tensors.states.items():
        if tensors.workload.weights[name].is_frozen:
            continue
        placement = states.optimizer.on(tensors.mesh)
        divided |= placement.flat | {axis for axis, _ in placement.shards}
    if tensors.plan.pipeline is not None:
        divided |= set(tensors.mesh.live((tensors.plan.pipeline.axis,)))
    for scalar in SCALARS:
        for suffix, placement in (("", partial(divided)), (".total", Placement())):
            tensors.declare(
                Tensor(
                    name=scalar + suffix,
                    shape=(1,),
                    dtype=tensors.workload.precision.wide,
                    role="scalar",
                    placement=placement.on(tensors.mesh),
                    form_of=scalar if suffix else None,
                )
            )


def end_of_step(
    builder: ProgramBuilder,
    before_norm: Callable[[ProgramBuilder], None] | None = None,
    uncounted: frozenset[str] = frozenset(),
) -> None:
    """Add the calls that end the step for the builder's part of the model; the weights in `uncounted` are counted in
    the gradient norm of another stage."""
    places = _weights_by_place(builder)
    for label, layer, weights in reversed(places):
        for weight in filter(builder.reduces_at_end, weights):
            builder.reduce_step(weight, layer)
        builder.close(f"reduce.{label}", layer, 0)
    if before_norm is not None:
        before_norm(builder)
    for label, layer, weights in places:
        counted = [w for w in weights if w.name not in uncounted]
        for together in [[w] for w in counted] if builder.workload.clips_each else [counted]:
            _norm(builder, together, layer)
        builder.close(f"norm.{label}", layer, 0)
    for scalar in SCALARS:
        _scalar(builder, scalar)
    builder.close("clip", 0, 0)
    for label, layer, weights in places:
        _STEPS[builder.workload.optimizer](builder, weights, layer)
        _publish(builder, weights, layer)
        builder.close(f"step.{label}", layer, 0)
    for label, layer, weights in places if builder.workload.states else ():
        _follow(builder, weights, layer)
        builder.close(f"follow.{label}", layer, 0)


def _weights_by_place(builder: ProgramBuilder) -> list[Place]:
    """Return the weights of the part, grouped: those of the embedding, those of each layer, and those of each module of
    the head."""
    weights = builder.workload.weights
    trained = {name for phase in builder.phases for op in phase.backward for name in op.gradients}
    own = [weights[name] for name in weights if name in trained]
    of_kind = {kind: [w for w in own if w.per_layer and w.name in kind.weights] for kind in builder.workload.kinds}
    ends = {m: [w for w in own if w.owner == m] for m in dict.fromkeys(w.owner for w in own if not w.per_layer)}
    first = next(iter(weights.values())).owner
    return [
        *((module, 0, held) for module, held in ends.items() if module == first),
        *(("layer", layer, of_kind[builder.workload.layers[layer]]) for layer in builder.layers),
        *((module, 0, held) for module, held in ends.items() if module != first),
    ]


def _gradient(builder: ProgramBuilder, weight: Weight, layer: int) -> Ref:
    return Ref(builder.tensors.optimizer_gradient(weight), layer)


def _norm(builder: ProgramBuilder, weights: list[Weight], layer: int) -> None:
    """Add the norm of the gradients of these weights; if each gradient is clipped by its own norm, the host waits for
    the result."""
    grads = tuple(_gradient(builder, w, layer) for w in weights)
    if not grads:
        return
    scalars = tuple(Ref(scalar) for scalar in SCALARS)
    if not builder.workload.clips_each:
        builder.items.append(Compute(kind="norm2", name="gradient_norm", reads=grads, accumulates=scalars))
        return
    (weight,) = weights
    token = Ref(f"clip.{weight.name}", layer)
    builder.tensors.declare(token_tensor(token.name, weight.per_layer))
    builder.items += [
        Compute(kind="norm2", name="gradient_norm", reads=grads, writes=(token,), accumulates=scalars),
        Compute(kind="hook", name="clip", reads=(token,), lane="host"),
    ]


def _follow(builder: ProgramBuilder, weights: list[Weight], layer: int) -> None:
    """Add the updates of states that track a moving average of weights, one weight at a time."""
    followers = {state.follows: state.name for state in builder.workload.states.values() if state.follows}
    for weight in weights:
        if weight.name in followers:
            state = Ref(followers[weight.name], layer)
            builder.items.append(
                Compute(kind="ema", name="ema", reads=(Ref(weight.name, layer), state), writes=(state,))
            )


def _scalar(builder: ProgramBuilder, name: str) -> None:
    total = Ref(f"{name}.total")
    if builder.tensors[name].placement == Placement():
        builder.items.append(Compute(kind="slice", name=name, reads=(Ref(name),), writes=(total,)))
    else:
        builder.move("scalar", Ref(name), total, builder.plan.hops["scalar"])


def _adam(builder: ProgramBuilder, weights: list[Weight], layer: int) -> None:
    reads, writes = [Ref(f"{s}.total") for s in SCALARS], []
    for weight in weights:
        reads += [_gradient(builder, weight, layer), *_states(weight, layer)]
        writes += [*_states(weight, layer), _stepped(builder, weight, layer)]
    builder.items.append(_on_elements("adam", weights, reads, writes))


def _lamb(builder: ProgramBuilder, weights: list[Weight], layer: int) -> None:
    """Add the LAMB update: Adam's step for every tensor, the norms of this step and of the master weights, summed over
    all ranks with a part of the tensor (in one call, as Apex's DistributedFusedLAMB reduces them), and the step scaled
    by the ratio of these norms."""
    reads, writes = [Ref(f"{s}.total") for s in SCALARS], []
    for weight in weights:
        moments, master = _states(weight, layer)
        reads += [_gradient(builder, weight, layer), moments, master]
        writes += [moments, Ref(f"{weight.name}.update", layer), Ref(f"{weight.name}.norms", layer)]
    builder.items.append(_on_elements("lamb_update", weights, reads, writes))
    by_placement: dict[Placement, list[Weight]] = {}
    for weight in weights:
        by_placement.setdefault(builder.tensors[f"{weight.name}.norms"].placement, []).append(weight)
    for placement, together in by_placement.items():
        if placement.partial:
            own = [Ref(f"{weight.name}.norms", layer) for weight in together]
            whole = [Ref(builder.tensors.norms(weight), layer) for weight in together]
            builder.move_together("scalar", own, whole, builder.plan.hops["scalar"])
    reads, writes = [], []
    for weight in weights:
        _, master = _states(weight, layer)
        reads += [Ref(f"{weight.name}.update", layer), Ref(builder.tensors.norms(weight), layer), master]
        writes += [master, _stepped(builder, weight, layer)]
    builder.items.append(_on_elements("lamb", weights, reads, writes))


def _muon(builder: ProgramBuilder, weights: list[Weight], layer: int) -> None:
    """Add the Muon update of matrices, and Adam's of all other weights: the momentum, which every rank has of its part;
    a gather of whole matrices over the ranks that divide states and over those of tensor parallelism (arXiv 2502.16982,
    Distributed Muon; Megatron-Core's `muon_tp_mode` = duplicated), in the model's type; Newton-Schulz iterations, which
    all these ranks repeat; and the step of the rank's own part."""
    matrices = [weight for weight in weights if builder.workload.is_orthogonalised(weight)]
    others = [weight for weight in weights if weight not in matrices]
    if others:
        _adam(builder, others, layer)
    if not matrices:
        return
    reads, writes = [Ref(f"{s}.total") for s in SCALARS], []
    for weight in matrices:
        reads += [_gradient(builder, weight, layer), _states(weight, layer)[0]]
        writes += [_states(weight, layer)[0], Ref(f"{weight.name}.update", layer)]
    builder.items.append(_on_elements("muon_update", matrices, reads, writes))
    _reform(builder, [f"{weight.name}.update" for weight in matrices], "whole", layer)
    for weight in matrices:
        builder.items.append(_newton_schulz(builder, weight, layer))
        _reform(builder, [f"{weight.name}.orthogonal"], "own", layer)
    reads, writes = [], []
    for weight in matrices:
        _, master = _states(weight, layer)
        reads += [Ref(builder.tensors.form_or_own(f"{weight.name}.orthogonal", "own"), layer), master]
        writes += [master, _stepped(builder, weight, layer)]
    builder.items.append(_on_elements("muon", matrices, reads, writes))


def _reform(builder: ProgramBuilder, names: list[str], form: str, layer: int) -> None:
    """Add the move of tensors to another of their forms, where they have it: first over the axes of the batch, then
    over those that cut the model."""
    pairs = [(Ref(name, layer), Ref(f"{name}.{form}", layer)) for name in names if f"{name}.{form}" in builder.tensors]
    if pairs:
        of_model = tuple(axis for axis in builder.mesh.live(builder.mesh.names) if axis not in builder.plan.axes)
        hops = (Hop(builder.plan.axes), Hop(of_model))
        builder.move_together("update", [src for src, _ in pairs], [dst for _, dst in pairs], hops)


def _newton_schulz(builder: ProgramBuilder, weight: Weight, layer: int) -> Compute:
    """Return the orthogonalisation of the update of a weight, all of whose experts' matrices are alike."""
    update = builder.tensors[builder.tensors.form_or_own(f"{weight.name}.update", "whole")]
    outer = tuple((label, size) for label, size in zip(weight.dims, weight.shape, strict=True) if label == EXPERTS)
    (short, smaller), (long, larger) = sorted(weight.sizes.items(), key=lambda side: side[1])
    again = f"{short}'"
    return Compute(
        kind="newton_schulz",
        name="newton_schulz",
        reads=(Ref(update.name, layer),),
        writes=(Ref(f"{weight.name}.orthogonal", layer),),
        iteration=(*outer, (short, smaller), (long, larger), (again, smaller)),
        split=tuple((axis, EXPERTS) for axis, _ in update.placement.shards),
        matmul=(tuple(label for label, _ in outer), (short,), (long,), (again,)),
        flops=math.prod(size for _, size in outer) * newton_schulz_flops(smaller, larger),
    )


_STEPS: Final[dict[Optimizer, Callable[[ProgramBuilder, list[Weight], int], None]]] = {
    "adam": _adam,
    "lamb": _lamb,
    "muon": _muon,
}


def _on_elements(kind: str, weights: list[Weight], reads: list[Ref], writes: list[Ref]) -> Compute:
    elements = sum(math.prod(w.shape) for w in weights)
    return Compute(kind=kind, name=kind, reads=tuple(reads), writes=tuple(writes), iteration=(("w", elements),))


def _states(weight: Weight, layer: int) -> tuple[Ref, Ref]:
    """Return the tensors of a weight's moments and master weight."""
    return Ref(f"{weight.name}.moments", layer), Ref(f"{weight.name}.master", layer)


def _stepped(builder: ProgramBuilder, weight: Weight, layer: int) -> Ref:
    """Return the tensor to which the optimizer writes the updated weight."""
    new = f"{weight.name}.new"
    return Ref(new if new in builder.tensors else weight.name, layer)


def _publish(builder: ProgramBuilder, weights: list[Weight], layer: int) -> None:
    for weight in weights:
        new, home = _stepped(builder, weight, layer), Ref(weight.name, layer)
        if new != home:
            builder.move("publish", new, home, builder.plan.hops["publish"])
