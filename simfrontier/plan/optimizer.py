"""The end of a step, as pieces of program: last reductions, the gradient's norm, Adam, and publishing new weights."""

from __future__ import annotations

import math
from collections.abc import Callable

from simfrontier.plan.builder import ProgramBuilder
from simfrontier.plan.program import token_tensor
from simfrontier.plan.tensors import Tensors
from simfrontier.schedule import Compute, Placement, Ref, Tensor, partial
from simfrontier.workload import Weight

SCALARS = ("overflow", "gradient_norm")
Place = tuple[str, int, list[Weight]]  # a label, a layer, and the weights that are stepped together there


def declare_scalars(tensors: Tensors) -> None:
    """What is summed over all ranks: partial over every axis that divides a gradient that the optimizer reads, or the
    model among stages."""
    divided: set[str] = set()
    for states in tensors.states.values():
        placement = states.optimizer.on(tensors.mesh)
        divided |= placement.flat | {axis for axis, _ in placement.shards if axis not in tensors.plan.axes}
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
    """The pieces that end the step of the builder's part; `uncounted` weights are in another stage's norm."""
    places = _weights_by_place(builder)
    if builder.engine.step_reduction == "end":
        for label, layer, weights in reversed(places):
            for weight in weights:
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
        _adam(builder, weights, layer)
        builder.close(f"step.{label}", layer, 0)
    for label, layer, weights in places if builder.workload.states else ():
        _follow(builder, weights, layer)
        builder.close(f"follow.{label}", layer, 0)


def _weights_by_place(builder: ProgramBuilder) -> list[Place]:
    """The weights of the part: those of the embedding, of each layer, and of every module of the head."""
    weights = builder.workload.weights
    own = [weights[name] for name in weights if name in builder.completed_by]
    layered = [w for w in own if w.per_layer]
    ends = {m: [w for w in own if w.module == m] for m in dict.fromkeys(w.module for w in own if not w.per_layer)}
    first = next(iter(weights.values())).module
    return [
        *((module, 0, held) for module, held in ends.items() if module == first),
        *(("layer", layer, layered) for layer in builder.layers),
        *((module, 0, held) for module, held in ends.items() if module != first),
    ]


def _gradient(builder: ProgramBuilder, weight: Weight, layer: int) -> Ref:
    return Ref(builder.tensors.optimizer_gradient(weight), layer)


def _norm(builder: ProgramBuilder, weights: list[Weight], layer: int) -> None:
    """The norm of these weights' gradients; where each is clipped by its own, the host waits for it."""
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
    """States that follow weights become their moving averages, one by one."""
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
        reads.append(_gradient(builder, weight, layer))
        state = [Ref(weight.name + part, layer) for part in (".moments", ".master")]
        new = f"{weight.name}.new"
        reads += state
        writes += [*state, Ref(new if new in builder.tensors else weight.name, layer)]
    elements = sum(math.prod(w.shape) for w in weights)
    builder.items.append(
        Compute(kind="adam", name="adam", reads=tuple(reads), writes=tuple(writes), iteration=(("w", elements),))
    )
    for weight in weights:
        if f"{weight.name}.new" in builder.tensors:
            src, dst = Ref(f"{weight.name}.new", layer), Ref(weight.name, layer)
            builder.move("publish", src, dst, builder.plan.hops["publish"])
