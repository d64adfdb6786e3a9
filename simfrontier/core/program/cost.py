"""What a compute op takes on one rank: bytes of device memory, kind by kind (`OpKind.traffic`), and the sizes and form
of its product; never how long."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.program.ir import GRADIENT_ROLES, Compute, Ref, Tensor, TensorRole
from simfrontier.core.program.mesh import Mesh

MatmulForm = Literal["tn", "nn", "nt"]


@dataclass(frozen=True, slots=True)
class Operands:
    """An op with its tensors on a mesh."""

    op: Compute
    tensors: Mapping[str, Tensor]
    mesh: Mesh

    def bytes(self, refs: tuple[Ref, ...], *roles: TensorRole) -> int:
        """Bytes of some operands on one rank (with roles: of those alone that have one); of a piece, its part."""
        held = [self.tensors[ref.name] for ref in refs]
        kept = [tensor for tensor in held if not roles or tensor.role in roles]
        piece = self.op.piece
        if piece is None:
            return sum(tensor.local_bytes(self.mesh) for tensor in kept)
        return sum(tensor.local_bytes(self.mesh) // piece.share_of(tensor) for tensor in kept)

    def without(self, refs: tuple[Ref, ...], role: TensorRole) -> tuple[Ref, ...]:
        return tuple(ref for ref in refs if self.tensors[ref.name].role != role)


Traffic = Callable[[Operands], int]


def nothing(of: Operands) -> int:
    """A wait."""
    return 0


def every_operand(of: Operands) -> int:
    """Each operand once, what is added to twice; a softmax's row and result as often as its kernel passes over them."""
    return of.bytes(of.op.reads) + of.bytes(of.op.writes) + 2 * of.bytes(of.op.accumulates) + _more_passes(of)


def product(of: Operands) -> int:
    """As every operand; what makes a weight's gradient does not read the weight that its module's hook fetched."""
    op = of.op
    if any(of.tensors[ref.name].role not in GRADIENT_ROLES for ref in (*op.writes, *op.accumulates)):
        return every_operand(of)
    return of.bytes(of.without(op.reads, "gathered")) + of.bytes(op.writes) + 2 * of.bytes(op.accumulates)


def as_written(of: Operands) -> int:
    """As many bytes are read as are written: rows of a table, or the part that a slice keeps."""
    return 2 * of.bytes(of.op.writes)


def added_rows(of: Operands) -> int:
    """Rows that are added into a gradient; the table that its module's hook fetched is not read."""
    return of.bytes(of.without(of.op.reads, "gathered")) + of.bytes(of.op.writes)


def encoded(of: Operands) -> int:
    """What is encoded may be a piece of what is read."""
    read = 0
    for a, b in zip(of.op.reads, of.op.writes, strict=True):
        source, target = of.tensors[a.name], of.tensors[b.name]
        whole, part = source.local_bytes(of.mesh), target.local_elements(of.mesh) * DTYPE_BYTES[source.dtype]
        read += min(whole, part)
    return read + of.bytes(of.op.writes)


def picked_rows(of: Operands) -> int:
    """As many rows of what is read as are written; the first operand, where a state says which, as a whole."""
    op = of.op
    searched = op.reads[:1] if any(of.tensors[ref.name].role == "state" for ref in op.reads) else ()
    return of.bytes(searched) + min(of.bytes(op.reads), of.bytes(op.writes)) + of.bytes(op.writes)


def replaced_entries(of: Operands) -> int:
    """Of a state, only the entries that are replaced."""
    return 2 * of.bytes(of.without(of.op.reads, "state"))


# ── kernels of a softmax ──


@dataclass(frozen=True, slots=True)
class MemoryPasses:
    """How often a softmax's kernel, where rows do not stay on the chip, reads a row of N elements, reads its result and
    writes it."""

    row_reads: int
    result_reads: int
    result_writes: int

    @property
    def accesses(self) -> int:
        """How often it reads or writes a row, or its result."""
        return self.row_reads + self.result_reads + self.result_writes


# Counted from the published kernels (arXiv 2001.04438; google/XNNPACK bench/f32-softmax.cc: 3N, 4N and 5N); that a
# row which stays on the chip is read once and written once is the least.
KERNELS: Final[Mapping[str, MemoryPasses]] = {
    "fused": MemoryPasses(row_reads=1, result_reads=0, result_writes=1),
    "two-pass": MemoryPasses(row_reads=2, result_reads=0, result_writes=1),
    "three-pass-recompute": MemoryPasses(row_reads=3, result_reads=0, result_writes=1),
    "three-pass-reload": MemoryPasses(row_reads=2, result_reads=1, result_writes=2),
}


def _more_passes(of: Operands) -> int:
    """What a softmax's kernel reads and writes again."""
    op = of.op
    if not op.kernel:
        return 0
    passes = KERNELS[op.kernel]
    row, result = of.bytes(op.reads[:1]), of.bytes(op.writes[:1])
    return (passes.row_reads - 1) * row + (passes.result_reads + passes.result_writes - 1) * result


# ── the optimizer ──


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Bytes of one rank's operands of an op of the optimizer."""

    of_gradients: int  # of making them ready
    masters: int
    moments: int
    updates: int
    scalars: int
    new: int  # of the weights in the model's type


def step_bytes(of: Operands) -> StepBytes:
    """What DeepSpeed's step reads and writes (0.16.5, runtime/zero/stage3.py `step` and stage_1_and_2.py `step`), of g
    bytes per number of the model's type, w of the master's, and two moments of w bytes each (16 bits: g = 2, w = 4):

        gradients side by side in one buffer (`flatten`)                  2 g            4
        cast to the master's type (`to`), where that is another           g + w          6
        loss scale and clipping (`unscale_and_clip_grads`, `mul_`)        2 w            8
        Adam (csrc/adam/multi_tensor_adam.cu): reads gradient, master,
          moments; writes master, moments                                 4 w + 3 w     28
        new weights in the model's type (`copy_`)                         w + g          6
                                                                                        52 bytes a parameter

    Megatron-LM's does without the first (48). LAMB's two passes (csrc/lamb/fused_lamb_cuda_kernel.cu) write the update
    instead of the master, taking the norms on their way, and read both again to write the master: 3 w more, 64 bytes.
    """
    op = of.op
    gradients, masters = of.bytes(op.reads, *GRADIENT_ROLES), of.bytes(op.reads, "master")
    types = {of.tensors[ref.name].dtype for ref in op.reads if of.tensors[ref.name].role in ("master", *GRADIENT_ROLES)}
    widened = gradients + masters if len(types) > 1 else 0
    return StepBytes(
        of_gradients=2 * gradients + widened + 2 * masters,
        masters=masters,
        moments=of.bytes(op.reads, "optimizer"),
        updates=of.bytes((*op.reads, *op.writes), "update"),
        scalars=of.bytes((*op.reads, *op.writes), "scalar", "norms"),
        new=of.bytes(tuple(ref for ref in op.writes if ref not in op.reads), "weight", *GRADIENT_ROLES),
    )


def adam(of: Operands) -> int:
    """As `step_bytes` lists."""
    step = step_bytes(of)
    return step.scalars + step.of_gradients + (3 * step.masters + 2 * step.moments) + (step.masters + step.new)


def lamb_update(of: Operands) -> int:
    """The first pass of LAMB: gradients and moments, and the update that is written."""
    step = step_bytes(of)
    return step.scalars + step.of_gradients + (2 * step.masters + step.updates + 2 * step.moments)


def lamb(of: Operands) -> int:
    """The second pass of LAMB: the update is read, masters and weights are written."""
    step = step_bytes(of)
    return step.scalars + (step.updates + 2 * step.masters) + (step.masters + step.new)


# ── matrix products ──


def matmul_dtype(op: Compute, tensors: Mapping[str, Tensor]) -> str:
    """The type of the numbers that a matrix product multiplies: that of its first operand."""
    return tensors[op.reads[0].name].dtype


def matmul_shape(op: Compute, mesh: Mesh) -> tuple[int, int, int, int]:
    """(batch, m, n, k) of a matrix product on one rank."""
    assert op.matmul is not None
    sizes = op.local_sizes(mesh)
    batch, m, n, k = (math.prod(sizes[label] for label in labels) for labels in op.matmul)
    return batch, m, n, k


def matmul_form(op: Compute, tensors: Mapping[str, Tensor]) -> MatmulForm | None:
    """The form of a linear module's product in BLAS (column-major) names, from the labels that its operands end with.

    Column-major, C (m x n) of A (m x k) and B (n x k) is computed as its transpose, B before A: the first letter is B's
    (`n` where B ends with a label of n, `t` where with one of k), the second A's (`n` for k, `t` for m). So O = I W^T
    is `tn`, dI = dO W `nn`, and dW = dO^T I `nt`, of weights that lie as [outputs, inputs].

    None for batched products (attention's, which fused kernels compute as a rule), and where both operands would be
    transposed or cannot be told apart.
    """
    assert op.matmul is not None
    batch, m, n, k = op.matmul
    first, second = _operand(op, tensors, m, k), _operand(op, tensors, n, k)
    if batch or first is None or second is None:
        return None
    if first.dims[-1] in k:
        return "nn" if second.dims[-1] in n else "tn"
    return "nt" if second.dims[-1] in n else None


def _operand(op: Compute, tensors: Mapping[str, Tensor], own: tuple[str, ...], k: tuple[str, ...]) -> Tensor | None:
    """What is multiplied on the side of m or n: the first operand that has its labels and those of k."""
    read = (tensors[ref.name] for ref in op.reads)
    return next((each for each in read if set(each.dims) & set(own) and set(each.dims) & set(k)), None)
