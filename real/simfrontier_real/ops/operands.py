"""Operands of the model's ops: which buffers an op reads and writes, whichever copy or shard of a tensor a buffer
holds."""

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
    """Return the shape of a piece's part of a tensor instance; the shape of the whole instance if `piece` is None or
    does not cut it."""
    tensor = context.schedule.tensors[ref.name]
    shape = list(local_shape(tensor, context.schedule.mesh))
    if piece is not None and piece.label in tensor.dims:
        shape[tensor.dims.index(piece.label)] //= piece.parts
    return tuple(shape)


def taken(context: RankContext, piece: Piece | None, ref: Ref) -> Array:
    """Return the part of a tensor instance that a piece reads; all values if `piece` is None or does not cut it."""
    values = context.buffers[ref]
    if piece is None or piece.label not in context.schedule.tensors[ref.name].dims:
        return values
    cube, at = _in_parts(context, piece, ref, values)
    return context.backend.xp.reshape(cube[at], shape_of(context, piece, ref))


def put(context: RankContext, piece: Piece | None, ref: Ref, values: Array) -> None:
    """Write the part of a tensor instance that a piece computes, or the whole instance; the first piece allocates the
    whole buffer."""
    tensor = context.schedule.tensors[ref.name]
    if piece is None or piece.label not in tensor.dims:
        context.buffers[ref] = values
        return
    if piece.number == 0:
        context.buffers[ref] = context.backend.empty(local_shape(tensor, context.schedule.mesh), tensor.dtype)
    cube, at = _in_parts(context, piece, ref, context.buffers[ref])
    cube[at] = context.backend.xp.reshape(values, cube[at].shape)


def _in_parts(context: RankContext, piece: Piece, ref: Ref, values: Array) -> tuple[Array, tuple[slice | int, ...]]:
    """Return (view of a tensor instance whose cut dimension is split into [blocks, pieces, rest], index of the piece in
    this view)."""
    tensor, mesh = context.schedule.tensors[ref.name], context.schedule.mesh
    dim = tensor.dims.index(piece.label)
    if piece.turns:
        local = local_shape(tensor, mesh)
        cut = (*local[:dim], piece.parts, local[dim] // piece.parts, *local[dim + 1 :])
        cube = context.backend.xp.reshape(values, cut)
        return cube, (*(slice(None) for _ in range(dim)), block_number(context, piece))
    is_block = any(axis in piece.axes and cut == dim for axis, cut in tensor.placement.shards)
    blocks = 1 if is_block else mesh.size(piece.axes)
    shape = local_shape(tensor, mesh)
    parts = (blocks, piece.parts, shape[dim] // (blocks * piece.parts))
    cube = context.backend.xp.reshape(values, (*shape[:dim], *parts, *shape[dim + 1 :]))
    return cube, (*(slice(None) for _ in range(dim + 1)), piece.number)


def block_number(context: RankContext, piece: Piece) -> int:
    """Return the number of the block that a piece that turns consists of: that of the rank so many places before."""
    own = 0
    for axis in piece.axes:
        own = own * context.schedule.mesh[axis] + context.at[axis]
    return (own - piece.number) % piece.parts


_TIED = {"head": "embedding"}  # modules that use the weight of another where they have none of their own


@dataclass(frozen=True, slots=True)
class Operands:
    """Operands of one op as arrays in the shapes of their blocks on this rank.

    Operands are looked up by tensor names without the stream prefix: no op uses two tensors whose names differ only in
    the stream, except activations, which are in the op's order.
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
        """Return 16-bit numbers as float32, the type in which sums and exponentials are computed; return other types
        unchanged."""
        return self.context.backend.wide(values)

    @property
    def refs(self) -> tuple[tuple[Ref, ...], tuple[Ref, ...], tuple[Ref, ...]]:
        """(reads, writes, accumulates) of the op."""
        return self.context.operands(self.index)

    @property
    def module(self) -> str:
        """Name of the op's module, without its stream."""
        return self.op.named.module

    @property
    def is_backward(self) -> bool:
        """True if the op computes gradients."""
        return self.op.named.part is not None

    def sizes(self) -> dict[str, int]:
        """Local size of each label of the op's iteration space."""
        return self.op.local_sizes(self.context.schedule.mesh)

    def activations(self) -> list[tuple[str, Array]]:
        """Return (name, value) of each activation that the op reads, in the op's order."""
        tensors, reads = self.context.schedule.tensors, self.context.program.reads[self.index]
        held = [(tensors[ref.name], ref) for ref in reads]
        own = [(tensor.quantity, ref) for tensor, ref in held if tensor.role == "activation"]
        return [(name, taken(self.context, self.op.piece, ref)) for name, ref in own]

    def one(self) -> Array:
        """The only activation that the op reads."""
        ((_, value),) = self.activations()
        return value

    def activation(self, name: str) -> Array:
        """Return the activation `name`."""
        return dict(self.activations())[name]

    def weight_of(self, module: str) -> str:
        """Return the name of a module's weight: its own weight, or that of the module to which it is tied."""
        name = f"{module}.weight"
        return name if name in self.context.schedule.tensors else f"{_TIED[module]}.weight"

    def weight(self, name: str) -> Array | None:
        """Return a weight or state that the op reads, in the shape of its block; None if the op does not read it."""
        for ref in self.context.program.reads[self.index]:
            tensor = self.context.schedule.tensors[ref.name]
            if tensor.role not in ("activation", "token") and tensor.quantity == name:
                shape = local_shape(tensor, self.context.schedule.mesh)
                line = self.xp.reshape(self.context.buffers[ref], (-1,))
                return self.xp.reshape(line[: math.prod(shape)], shape)
        return None

    def state(self) -> Array | None:
        """The only state that the op reads."""
        read = (self.context.schedule.tensors[ref.name] for ref in self.context.program.reads[self.index])
        (name,) = {tensor.quantity for tensor in read if tensor.role == "state"}
        return self.weight(name)

    def first(self, label: str) -> int:
        """Return the first index along a label of the op's iteration space on this rank."""
        mesh, block = self.context.schedule.mesh, 0
        for axis in self.cuts((label,)):
            block = block * mesh[axis] + self.context.at[axis]
        return block * self.sizes()[label]

    def cuts(self, labels: Iterable[str]) -> tuple[str, ...]:
        """Return the mesh axes that cut any of these labels of the op's iteration space."""
        wanted, iteration = set(labels), dict(self.op.iteration)
        mesh = self.context.schedule.mesh
        return mesh.live(axis for axis, label in self.op.split if label in wanted and label in iteration)

    def put(self, value: Array, number: int = 0) -> None:
        """Write output `number` of the op, cast to its type in the schedule."""
        ref = [r for r in self.context.program.writes[self.index] if self._role(r) == "activation"][number]
        made = self.context.backend.cast(value, self.context.schedule.tensors[ref.name].dtype)
        put(self.context, self.op.piece, ref, made)

    def num_outputs(self) -> int:
        """Number of outputs that `put` can write."""
        return sum(self._role(ref) == "activation" for ref in self.context.program.writes[self.index])

    def states(self) -> list[Tensor]:
        """States that the op writes, in the op's order."""
        return [self.context.schedule.tensors[ref.name] for ref in self._written_states()]

    def keep(self, name: str, value: Array) -> None:
        """Overwrite a state with a flat array, cast to its type in the schedule."""
        tensors = self.context.schedule.tensors
        (ref,) = [ref for ref in self._written_states() if tensors[ref.name].quantity == name]
        line = self.xp.reshape(value, (-1,))
        self.context.buffers[ref] = self.context.backend.cast(line, self.context.schedule.tensors[ref.name].dtype)

    def _written_states(self) -> list[Ref]:
        return [ref for ref in self.context.program.writes[self.index] if self._role(ref) == "state"]

    def gradient(self, name: str, value: Array) -> None:
        """Write the gradient of a weight that is not frozen, or add to it, as a flat array of the whole block."""
        if name in (tensors := self.context.schedule.tensors) and tensors[name].is_frozen:
            return
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
        """Return the tensor in which the op writes the gradient of a weight; None if the op does not compute it."""
        _, writes, added = self.refs
        made = (self.context.schedule.tensors[ref.name] for ref in (*writes, *added))
        return next((tensor for tensor in made if _is_gradient(tensor, name)), None)

    def _role(self, ref: Ref) -> str:
        return self.context.schedule.tensors[ref.name].role


Kernel = Callable[[Operands], None]


def _is_gradient(tensor: Tensor, weight: str) -> bool:
    """Return whether a tensor is the gradient of a weight, in any stream."""
    return tensor.weight is not None and tensor.quantity == weight
