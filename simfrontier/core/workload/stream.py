"""Streams: the same part of a model on several kinds of input, with values of its own for each and shared weights."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from simfrontier.core.workload.graph import Use, Value, WorkOp

NEXT = ".next"  # the end of the name of a value of the layer after, in a part that has one layer


@dataclass(frozen=True, slots=True)
class Stream:
    """Gives ops and values the names of a stream: the op `qkv` of stream `local` is `local/qkv` and reads
    `local/ln1.out`. The weights of a `follower` are states of its own, `teacher/qkv.weight`.

    A part with `one_layer` has values of no layer: the x that it gives is `x.next`.
    """

    name: str
    follower: str = ""
    one_layer: bool = False

    def op(self, op: WorkOp) -> WorkOp:
        """The op in this stream."""
        moved = replace(in_stream(self.name, op), reads=self._uses(op.reads), writes=self._uses(op.writes))
        if not self.follower:
            return moved
        return replace(moved, weights=(), states=(*op.states, *(f"{self.follower}/{name}" for name in op.weights)))

    def ops(self, ops: Iterable[WorkOp]) -> tuple[WorkOp, ...]:
        """Several of them."""
        return tuple(self.op(op) for op in ops)

    def values(self, values: Iterable[Value]) -> dict[str, Value]:
        """The values in this stream, by name."""
        out = {}
        for value in values:
            has_next = self.one_layer and value.per_layer
            for ending in ("", NEXT) if has_next else ("",):
                like = value.name if ending else value.form_of
                moved = replace(
                    value,
                    local=value.local + ending,
                    streams=(self.name, *value.streams),
                    per_layer=value.per_layer and not self.one_layer,
                    form_of=f"{self.name}/{like}" if like else "",
                )
                out[moved.name] = moved
        return out

    def _uses(self, uses: tuple[Use, ...]) -> tuple[Use, ...]:
        if self.one_layer:
            return tuple((f"{self.name}/{name}{NEXT * shift}", 0) for name, shift in uses)
        return tuple((f"{self.name}/{name}", shift) for name, shift in uses)


def in_stream(stream: str, op: WorkOp) -> WorkOp:
    """The op with the name of that stream."""
    return replace(op, named=op.named._replace(streams=(stream, *op.named.streams)))


def without_cuts(ops: Iterable[WorkOp], values: dict[str, Value]) -> tuple[WorkOp, ...]:
    """Ops as they are where nothing of the model is cut: those that are needed only there are left out, and so is what
    they make."""

    def there(uses: tuple[Use, ...]) -> tuple[Use, ...]:
        return tuple(use for use in uses if not values[use[0]].where_cut)

    return tuple(replace(op, reads=there(op.reads), writes=there(op.writes)) for op in ops if not op.where_cut)
