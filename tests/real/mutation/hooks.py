"""What faults are made of: hooks on messages and ops of a kind, and the commonest changes."""

from __future__ import annotations

from collections.abc import Callable

from simfrontier.core.program.ir import Collective, Op, Ref
from tests.real.mutation.seams import Messages, Place, copied, is_compute, outputs, values_of

Change = Callable[[Place, Messages], Messages]


def is_collective(op: Op, names: tuple[str, ...], *kinds: str) -> bool:
    return isinstance(op, Collective) and op.name in names and (not kinds or op.kind in kinds)


def is_maximum(at: Place) -> bool:
    """Whether a collective forms a maximum: that of logits may be anything, because the loss does not depend on it."""
    assert isinstance(at.op, Collective)
    partial = dict(at.context.schedule.tensors[at.op.src[0].name].placement.partial)
    return any(partial.get(axis) == "max" for axis in at.op.axes)


def on_messages(names: tuple[str, ...], change: Change, *kinds: str) -> Change:
    """A change of the messages of collectives of these names (and kinds), counted where it changes something."""

    def hook(at: Place, messages: Messages) -> Messages:
        if not is_collective(at.op, names, *kinds) or is_maximum(at):
            return messages
        before = tuple(copied(each) for each in messages)
        return at.changed(before, change(at, messages))  # type: ignore[no-any-return]

    return hook


def own_alone(at: Place, results: Messages) -> Messages:
    """What a rank has after a reduction that never ran: its own contribution."""
    (result, *more), (sent, *_) = results, at.sent
    if more or result.ndim == 2:
        return results
    return (sent.copy() if at.op.kind == "all_reduce" else sent[at.number].copy(),)


def after(kinds: tuple[str, ...], change: Callable[[Place], None]) -> Callable[[Place, Callable[[], None]], None]:
    """Change outputs once an op of these kinds has run."""

    def hook(at: Place, go: Callable[[], None]) -> None:
        go()
        if is_compute(at, *kinds):
            before = values_of(at, outputs(at))
            change(at)
            at.changed(before, values_of(at, outputs(at)))

    return hook


def where(
    kinds: tuple[str, ...],
    does: Callable[[Place, Callable[[], None]], None],
    when: Callable[[Place], bool] = lambda at: True,
) -> Callable[[Place, Callable[[], None]], None]:
    """Something else than an op, for those of these kinds."""

    def hook(at: Place, go: Callable[[], None]) -> None:
        if is_compute(at, *kinds) and when(at):
            does(at, go)
        else:
            go()

    return hook


def left_out(at: Place, go: Callable[[], None]) -> None:
    """An op that changes nothing: what it writes stays as it was, or zero where nothing was."""
    refs = outputs(at)
    before = values_of(at, refs)
    go()
    after = values_of(at, refs)
    for ref, old, new in zip(refs, before, after, strict=True):
        at.context.buffers[ref] = at.context.backend.xp.zeros_like(new) if old is None else old
        at.changed(new, at.context.buffers[ref])


def twice(at: Place, go: Callable[[], None]) -> None:
    go()
    before = values_of(at, outputs(at))
    go()
    at.changed(before, values_of(at, outputs(at)))


def dtype_of(at: Place, ref: Ref) -> str:
    return at.context.schedule.tensors[ref.name].dtype
