"""Faults of the optimizer: of the gradients that it is given, of Adam, of LAMB, and of the norm to clip by."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from simfrontier.core.program.ir import Ref
from simfrontier.core.program.kinds import STEPS
from simfrontier_real.train.train import TrainingRank
from tests.real.mutation.hooks import after, dtype_of, left_out, on_messages, own_alone, twice, where
from tests.real.mutation.seams import Fault, Memory, Messages, Place, copied, is_compute, outputs, values_of

READ_GRADIENTS = tuple(kind.name for kind in STEPS if kind.reads_gradients)
RENEW_WEIGHTS = tuple(kind.name for kind in STEPS if kind.renews_weights)


def _gradients(at: Place) -> list[Ref]:
    """The gradients that an op of the optimizer reads."""
    reads = at.context.program.reads[at.index]
    return [ref for ref in reads if ref.name.endswith((".grad", ".grad.reduced"))]


def _with_gradients(change: Callable[[Place, Ref, Any], Any]) -> Callable[[Place, Callable[[], None]], None]:
    """Adam, or LAMB, with other gradients than those that are there."""

    def hook(at: Place, go: Callable[[], None]) -> None:
        if is_compute(at, *READ_GRADIENTS):
            for ref in _gradients(at):
                values = at.context.buffers[ref]
                new = change(at, ref, values)
                at.context.buffers[ref] = at.changed(values, at.context.backend.cast(new, dtype_of(at, ref)))
        go()

    return hook


def _first_of_all(at: Place, ref: Ref) -> bool:
    """Whether a gradient is the one tensor that a fault is about: the widest matrix of the first layer."""
    return ref.name.startswith("h_to_4h.weight.") and ref.layer == 0


def _old_gradient(at: Place, ref: Ref, values: Any) -> Any:
    old, at.memory.kept[ref] = at.memory.kept.get(ref), copied(values)
    return values if old is None else old


def _adam_without_one(at: Place, go: Callable[[], None]) -> None:
    """Adam leaves one tensor as it is."""
    refs = [r for r in _gradients(at) if _first_of_all(at, r)]
    kept: dict[Ref, Any] = {}
    for ref in refs:
        name = ref.name.removesuffix(".reduced").removesuffix(".grad")
        reads = {each.name: each for each in at.context.program.reads[at.index] if each.layer == ref.layer}
        kept |= {reads[n]: copied(at.context.buffers[reads[n]]) for n in (f"{name}.moments", f"{name}.master")}
    go()
    for ref, values in kept.items():
        at.context.buffers[ref] = at.changed(at.context.buffers[ref], values)
        if ref.name.endswith(".master"):
            name = ref.name.removesuffix(".master")
            for out in outputs(at):
                if out.name in (name, f"{name}.new") and out.layer == ref.layer:
                    at.context.buffers[out] = at.context.backend.cast(values, dtype_of(at, out))


def _adam_left_out_on_last(at: Place, go: Callable[[], None]) -> None:
    """The last rank leaves its moments and masters as they were, and publishes what it had."""
    refs = tuple(r for r in outputs(at) if r.name.endswith((".moments", ".master")))
    before = dict(zip(refs, values_of(at, refs), strict=True))
    go()
    for ref, values in before.items():
        at.context.buffers[ref] = at.changed(at.context.buffers[ref], values)
        name = ref.name.removesuffix(".master")
        for out in outputs(at):
            if out.name in (name, f"{name}.new") and out.layer == ref.layer:
                at.context.buffers[out] = at.context.backend.cast(values, dtype_of(at, out))


def _publishes_old(at: Place, go: Callable[[], None]) -> None:
    """What is published are the weights from before the step."""
    reads = [ref for ref in at.context.program.reads[at.index] if ref.name.endswith(".master")]
    before = dict(zip(reads, values_of(at, tuple(reads)), strict=True))
    go()
    for ref, values in before.items():
        name = ref.name.removesuffix(".master")
        for out in outputs(at):
            if out.name in (name, f"{name}.new") and out.layer == ref.layer:
                old = at.context.backend.cast(values, dtype_of(at, out))
                at.context.buffers[out] = at.changed(at.context.buffers[out], old)


def _is_last_rank(at: Place) -> bool:
    return at.context.rank == at.context.schedule.mesh.num_ranks - 1 > 0


def _no_moments(at: Place) -> None:
    for ref in outputs(at):
        if ref.name.endswith(".moments"):
            at.context.buffers[ref] = at.context.backend.xp.zeros_like(at.context.buffers[ref])


def _other_scale(at: Place, go: Callable[[], None]) -> None:
    training_state = at.rank.training_state
    training_state.loss_scale, right = training_state.loss_scale * 2, training_state.loss_scale
    go()
    training_state.loss_scale = right
    at.memory.fired += 1


def _own_norms(at: Place, results: Messages) -> Messages:
    """Of the norms of weights and updates alone."""
    is_of_weights = at.context.schedule.tensors[at.context.program.reads[at.index][0].name].role == "norms"
    return own_alone(at, results) if is_of_weights else results


def _norms_read(at: Place) -> list[Ref]:
    tensors = at.context.schedule.tensors
    return [ref for ref in at.context.program.reads[at.index] if tensors[ref.name].role == "norms"]


def _with_norms(at: Place, go: Callable[[], None], new: list[Any]) -> None:
    """The op with other norms, which are put back after it."""
    refs = _norms_read(at)
    right = values_of(at, tuple(refs))
    for ref, values in zip(refs, new, strict=True):
        at.context.buffers[ref] = at.changed(at.context.buffers[ref], values)
    go()
    for ref, values in zip(refs, right, strict=True):
        at.context.buffers[ref] = values


def _norms_alike(at: Place, go: Callable[[], None]) -> None:
    _with_norms(at, go, [at.context.backend.xp.ones_like(at.context.buffers[ref]) for ref in _norms_read(at)])


def _norms_of_another(at: Place, go: Callable[[], None]) -> None:
    held = [copied(at.context.buffers[ref]) for ref in _norms_read(at)]
    _with_norms(at, go, [held[-1], *held[:-1]])


def _old_update(at: Place, go: Callable[[], None]) -> None:
    for ref in at.context.program.reads[at.index]:
        if at.context.schedule.tensors[ref.name].role == "update":
            at.context.buffers[ref] = at.changed(
                at.context.buffers[ref], _old_gradient(at, ref, at.context.buffers[ref])
            )
    go()


def _one_norm_left_out(at: Place) -> bool:
    """The norm of layer 1, on all ranks."""
    return at.layer == 1


def _later_step(rank: TrainingRank, number: int, memory: Memory) -> None:
    """Adam's bias correction as if a step had gone before."""
    if number == 0:
        rank.training_state.step += 1
        memory.fired += 1


OPTIMIZER: Final[tuple[Fault, ...]] = (
    Fault("Adam: gradients × 4", run=_with_gradients(lambda at, ref, values: values * 4)),
    Fault("Adam: gradients × 1.0001", run=_with_gradients(lambda at, ref, values: values * 1.0001)),
    Fault("Adam: gradients × 0", run=_with_gradients(lambda at, ref, values: values * 0)),
    Fault("Adam: gradients of the step before", run=_with_gradients(_old_gradient)),
    Fault(
        "Adam: one gradient × 1.001",
        run=_with_gradients(lambda at, ref, values: values * (1.001 if _first_of_all(at, ref) else 1.0)),
    ),
    Fault(
        "Adam: one gradient with the other sign",
        run=_with_gradients(lambda at, ref, values: -values if _first_of_all(at, ref) else values),
    ),
    Fault(
        "Adam: one gradient reversed",
        run=_with_gradients(lambda at, ref, values: copied(values[::-1]) if _first_of_all(at, ref) else values),
    ),
    Fault("Adam: left out for one tensor", run=where(("adam",), _adam_without_one)),
    Fault("Adam: left out on the last rank", run=where(RENEW_WEIGHTS, _adam_left_out_on_last, _is_last_rank)),
    Fault("Adam: publishes the weights before", run=where(RENEW_WEIGHTS, _publishes_old)),
    Fault("Adam: moments forgotten", run=after(READ_GRADIENTS, _no_moments)),
    Fault("Adam: bias correction of a later step", loads=_later_step),
    Fault("Adam: another loss scale", run=where(READ_GRADIENTS, _other_scale)),
    Fault("LAMB: norms not summed over ranks", brings=on_messages(("scalar",), _own_norms, "all_reduce")),
    Fault("LAMB: not scaled", run=where(("lamb",), _norms_alike)),
    Fault("LAMB: scaled by the tensor before", run=where(("lamb",), _norms_of_another)),
    Fault("LAMB: update of the step before", run=where(("lamb",), _old_update)),
    Fault("norm: a layer left out", run=where(("norm2",), left_out, _one_norm_left_out)),
    Fault("norm: left out on the last rank", run=where(("norm2",), left_out, _is_last_rank)),
    Fault("norm: counted twice", run=where(("norm2",), twice)),
    Fault("norm: not summed over ranks", brings=on_messages(("scalar",), own_alone, "all_reduce")),
)
