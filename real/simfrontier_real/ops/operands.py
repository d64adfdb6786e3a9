"""The operands of the model's ops: which buffers they are, whatever copy or part of a value a buffer holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Compute, Piece, Ref, Tensor
from simfrontier_real.ops.arrays import Array, Backend
from simfrontier_real.ops.layout import local_shape, whole_line
from simfrontier_real.ops.programs import RankContext


def shape_of(context: RankContext, piece: Piece | None, ref: Ref) -> tuple[int, ...]:
    """Return the shape of a piece's part of an instance; that of the whole instance without a piece, or where it is not
    cut."""
    tensor = context.schedule.tensors[ref.name]
    shape = list(local_shape(tensor, context.schedule.mesh))
    if piece is not None and piece.label in tensor.dims:
        shape[tensor.dims.index(piece.label)] //= piece.parts
    return tuple(shape)


def taken(context: RankContext, piece: Piece | None, ref: Ref) -> Array:
    """Return the values of an instance that a piece reads, or all of them."""
    values = context.buffers[ref]
    if piece is None or piece.label not in context.schedule.tensors[ref.name].dims:
        return values
    cube, at = _in_parts(context, piece, ref, values)
    return context.backend.xp.reshape(cube[at], shape_of(context, piece, ref))


def put(context: RankContext, piece: Piece | None, ref: Ref, values: Array) -> None:
    """Write a piece's part of an instance, or all of it; the first piece allocates the whole."""
    tensor = context.schedule.tensors[ref.name]
    if piece is None or piece.label not in tensor.dims:
        context.buffers[ref] = values
        return
    if piece.number == 0:
        context.buffers[ref] = context.backend.empty(local_shape(tensor, context.schedule.mesh), tensor.dtype)
    cube, at = _in_parts(context, piece, ref, context.buffers[ref])
    cube[at] = context.backend.xp.reshape(values, cube[at].shape)


def _in_parts(context: RankContext, piece: Piece, ref: Ref, values: Array) -> tuple[Array, tuple[slice | int, ...]]:
    """(a view of an instance whose cut dimension is apart as [blocks, pieces, rest], where the piece lies in it)."""
    tensor, mesh = context.schedule.tensors[ref.name], context.schedule.mesh
    dim = tensor.dims.index(piece.label)
    is_block = any(axis in piece.axes and cut == dim for axis, cut in tensor.placement.shards)
    blocks = 1 if is_block else mesh.size(piece.axes)
    shape = local_shape(tensor, mesh)
    parts = (blocks, piece.parts, shape[dim] // (blocks * piece.parts))
    cube = context.backend.xp.reshape(values, (*shape[:dim], *parts, *shape[dim + 1 :]))
    return cube, (*(slice(None) for _ in range(dim + 1)), piece.number)


_TIED = {"head": "embedding"}  # modules that use the weight of another where they have none of their own


@dataclass(frozen=True, slots=True)
class Operands:
    """The operands of one op instance as arrays, in the shapes of their blocks on this rank.

    They are found by their names without streams: no op uses two tensors that differ by their streams alone,
    but for activations, which are in the op's order.
    """

    context: RankContext
    index: int
    op: Compute

    @property
    def backend(self) -> Backend:
        return self.context.backend

    @property
    def xp(self) -> Any:
        return self.context.backend.xp

    def wide(self, values: Array) -> Array:
        """16-bit numbers as float32, in which sums and exponentials are formed; others as they are."""
        return self.context.backend.wide(values)

    @property
    def refs(self) -> tuple[tuple[Ref, ...], tuple[Ref, ...], tuple[Ref, ...]]:
        """(reads, writes, accumulates) of the op."""
        return self.context.operands(self.index)

    @property
    def module(self) -> str:
        """The op's module, in whatever stream."""
        return self.op.named.module

    @property
    def is_backward(self) -> bool:
        """True if the op computes gradients."""
        return self.op.named.part is not None

    def sizes(self) -> dict[str, int]:
        """Local size of each label of the op's iteration space."""
        return self.op.local_sizes(self.context.schedule.mesh)

    def activations(self) -> list[tuple[str, Array]]:
        """Return (name, value) of the operands that are no weights, in the op's order."""
        tensors, reads = self.context.schedule.tensors, self.context.program.reads[self.index]
        held = [(tensors[ref.name], ref) for ref in reads]
        own = [(tensor.quantity, ref) for tensor, ref in held if tensor.role == "activation"]
        return [(name, taken(self.context, self.op.piece, ref)) for name, ref in own]

    def one(self) -> Array:
        """The only activation it reads."""
        ((_, value),) = self.activations()
        return value

    def activation(self, name: str) -> Array:
        """The activation of that name."""
        return dict(self.activations())[name]

    def weight_of(self, module: str) -> str:
        """The name of the weight that a module uses: its own, or that of the module it is tied to."""
        name = f"{module}.weight"
        return name if name in self.context.schedule.tensors else f"{_TIED[module]}.weight"

    def weight(self, name: str) -> Array | None:
        """A weight or state it reads, in the shape of its block; None where it reads none of that name."""
        for ref in self.context.program.reads[self.index]:
            tensor = self.context.schedule.tensors[ref.name]
            if tensor.role not in ("activation", "token") and tensor.quantity == name:
                shape = local_shape(tensor, self.context.schedule.mesh)
                line = self.xp.reshape(self.context.buffers[ref], (-1,))
                return self.xp.reshape(line[: math.prod(shape)], shape)
        return None

    def state(self) -> Array | None:
        """The only state that it reads."""
        read = (self.context.schedule.tensors[ref.name] for ref in self.context.program.reads[self.index])
        (name,) = {tensor.quantity for tensor in read if tensor.role == "state"}
        return self.weight(name)

    def first(self, label: str) -> int:
        """The first index along a label of the op's iteration space that this rank goes through."""
        mesh, block = self.context.schedule.mesh, 0
        for axis in self.cuts((label,)):
            block = block * mesh[axis] + self.context.at[axis]
        return block * self.sizes()[label]

    def cuts(self, labels: Iterable[str]) -> tuple[str, ...]:
        """The axes that cut any of these labels of the op's iteration space."""
        wanted, iteration = set(labels), dict(self.op.iteration)
        mesh = self.context.schedule.mesh
        return mesh.live(axis for axis, label in self.op.split if label in wanted and label in iteration)

    def put(self, value: Array, number: int = 0) -> None:
        """Write the op's output of that number, in the type that the schedule gives it."""
        ref = [r for r in self.context.program.writes[self.index] if self._role(r) == "activation"][number]
        made = self.context.backend.cast(value, self.context.schedule.tensors[ref.name].dtype)
        put(self.context, self.op.piece, ref, made)

    def num_outputs(self) -> int:
        """Number of outputs that `put` can write."""
        return sum(self._role(ref) == "activation" for ref in self.context.program.writes[self.index])

    def states(self) -> list[Tensor]:
        """The states that it writes, in its order."""
        return [self.context.schedule.tensors[ref.name] for ref in self._written_states()]

    def keep(self, name: str, value: Array) -> None:
        """Write a state anew, as a line in the type that the schedule gives it."""
        tensors = self.context.schedule.tensors
        (ref,) = [ref for ref in self._written_states() if tensors[ref.name].quantity == name]
        line = self.xp.reshape(value, (-1,))
        self.context.buffers[ref] = self.context.backend.cast(line, self.context.schedule.tensors[ref.name].dtype)

    def _written_states(self) -> list[Ref]:
        return [ref for ref in self.context.program.writes[self.index] if self._role(ref) == "state"]

    def gradient(self, name: str, value: Array) -> None:
        """Write, or add to, the gradient of a weight, as a whole line."""
        _, writes, added = self.refs
        for refs, adds in ((writes, False), (added, True)):
            for ref in refs:
                tensor = self.context.schedule.tensors[ref.name]
                if _is_gradient(tensor, name):
                    value = self.context.backend.cast(value, tensor.dtype)
                    line = whole_line(self.context.backend, value, tensor, self.context.schedule.mesh)
                    if adds:
                        self.context.add(ref, line)
                    else:
                        self.context.buffers[ref] = line
                    return
        raise SimfrontierError(f"op {self.op.name}: no gradient of {name} among what it writes")

    def gradient_of(self, name: str) -> Tensor | None:
        """The tensor that the gradient of a weight goes to, if the op makes it."""
        _, writes, added = self.refs
        made = (self.context.schedule.tensors[ref.name] for ref in (*writes, *added))
        return next((tensor for tensor in made if _is_gradient(tensor, name)), None)

    def _role(self, ref: Ref) -> str:
        return self.context.schedule.tensors[ref.name].role


Kernel = Callable[[Operands], None]


def _is_gradient(tensor: Tensor, weight: str) -> bool:
    """Return whether a tensor is the gradient of a weight, in whatever stream."""
    return tensor.weight is not None and tensor.quantity == weight
