"""Workloads with layers of two kinds: one with an MLP, and one with another, wider MLP that has weights of its own."""

from __future__ import annotations

from dataclasses import replace

from simfrontier.core.workload import Checkpointing, GptShape, Phase, Use, Workload, WorkOp, gpt

WIDE = "wide."  # the start of the names of all that only a wide layer has


def two_kinds(
    shape: GptShape, pattern: str, batch: int, checkpointing: Checkpointing = "none", precision: str = "bf16"
) -> Workload:
    """A GPT with a layer for each letter of the pattern: `a` as the shape has it, `b` with twice the features in its
    MLP."""
    plain = gpt(shape, batch, checkpointing, precision=precision)
    wide = gpt(replace(shape, ffn_hidden=2 * shape.feed_forward), batch, checkpointing, precision=precision)
    values = {name for name, value in wide.values.items() if "f" in value.dims}
    modules = {weight.module for weight in wide.weights.values() if "f" in weight.dims}

    def uses(each: tuple[Use, ...]) -> tuple[Use, ...]:
        return tuple((f"{WIDE}{name}" if name in values else name, shift) for name, shift in each)

    def weights(names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(f"{WIDE}{name}" if wide.weights[name].module in modules else name for name in names)

    def renamed(op: WorkOp) -> WorkOp:
        made = replace(op, reads=uses(op.reads), writes=uses(op.writes))
        made = replace(made, weights=weights(op.weights), gradients=weights(op.gradients))
        own = made != op
        return replace(made, named=op.named._replace(module=WIDE + op.named.module)) if own else op

    kind = wide.layers[0]
    other = Phase(forward=tuple(map(renamed, kind.forward)), backward=tuple(map(renamed, kind.backward)))
    own_values = {WIDE + name: replace(wide.values[name], local=WIDE + name) for name in values}
    own_weights = {
        WIDE + name: replace(weight, module=WIDE + weight.module)
        for name, weight in wide.weights.items()
        if weight.module in modules
    }
    phases = {"a": plain.layers[0], "b": other}
    whole = replace(plain, values={**plain.values, **own_values}, weights={**plain.weights, **own_weights})
    return whole.of_layers(tuple(phases[letter] for letter in pattern))
