"""Cost of a compute op on one rank, except its duration: bytes of device memory traffic by kind (`OpKind.traffic`), and
the sizes and transposition of its matrix product."""

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
    """A compute op with its tensors and the mesh, from which the bytes of its operands on one rank follow."""

    op: Compute
    tensors: Mapping[str, Tensor]
    mesh: Mesh

    def bytes(self, refs: tuple[Ref, ...], *roles: TensorRole) -> int:
        """Return the total bytes of some operands on one rank; if the op is a piece, only the bytes of that piece. With
        `roles`, only tensors with one of these roles count."""
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
    """Return 0 bytes of memory traffic: a wait moves no data."""
    return 0


def every_operand(of: Operands) -> int:
    """Return the bytes of all operands, each counted once, and accumulated operands twice. A softmax kernel with
    several passes over memory counts the row and the result once per pass."""
    return of.bytes(of.op.reads) + of.bytes(of.op.writes) + 2 * of.bytes(of.op.accumulates) + _more_passes(of)


def product(of: Operands) -> int:
    """Return the memory traffic of a matrix product, counted as in `every_operand`. If the op computes the gradient of
    a weight, the gathered weight among its operands is not counted: the module's hook gathers it, but the product does
    not read it."""
    op = of.op
    if any(of.tensors[ref.name].role not in GRADIENT_ROLES for ref in (*op.writes, *op.accumulates)):
        return every_operand(of)
    return of.bytes(of.without(op.reads, "gathered")) + of.bytes(op.writes) + 2 * of.bytes(op.accumulates)


def as_written(of: Operands) -> int:
    """Return twice the bytes written, for an op that reads as many bytes as it writes: a table look-up, or a slice."""
    return 2 * of.bytes(of.op.writes)


def as_read(of: Operands) -> int:
    """Return the bytes read, for an op that writes to the host's memory."""
    return of.bytes(of.op.reads)


def written(of: Operands) -> int:
    """Return the bytes written, for an op that reads from the host's memory."""
    return of.bytes(of.op.writes)


def added_rows(of: Operands) -> int:
    """Return the memory traffic of adding rows into the gradient of a table. The gathered table, which the module's
    hook gathers, is not read and not counted."""
    return of.bytes(of.without(of.op.reads, "gathered")) + of.bytes(of.op.writes)


def encoded(of: Operands) -> int:
    """Return the memory traffic of encoding: the bytes of the source, or of the part of it that is encoded, and of the
    encoded result."""
    read = 0
    for a, b in zip(of.op.reads, of.op.writes, strict=True):
        source, target = of.tensors[a.name], of.tensors[b.name]
        whole, part = source.local_bytes(of.mesh), target.local_elements(of.mesh) * DTYPE_BYTES[source.dtype]
        read += min(whole, part)
    return read + of.bytes(of.op.writes)


def picked_rows(of: Operands) -> int:
    """Return the memory traffic of selecting rows: as many bytes read as written; if a state gives the row indices, the
    whole first operand is read, too."""
    op = of.op
    searched = op.reads[:1] if any(of.tensors[ref.name].role == "state" for ref in op.reads) else ()
    return of.bytes(searched) + min(of.bytes(op.reads), of.bytes(op.writes)) + of.bytes(op.writes)


def replaced_entries(of: Operands) -> int:
    """Return the memory traffic of replacing entries of a state: the new entries are read once and written once; the
    other entries are not accessed."""
    return 2 * of.bytes(of.without(of.op.reads, "state"))


# ── kernels of a softmax ──


@dataclass(frozen=True, slots=True)
class MemoryPasses:
    """Number of times that a softmax kernel reads a row, reads its result and writes its result, if rows do not fit
    into on-chip memory."""

    row_reads: int
    result_reads: int
    result_writes: int

    @property
    def accesses(self) -> int:
        """Total number of times that a row or its result is read or written."""
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
    """Return the bytes that a softmax kernel reads and writes in addition to one read of the row and one write of the
    result."""
    op = of.op
    if not op.kernel:
        return 0
    passes = KERNELS[op.kernel]
    row, result = of.bytes(op.reads[:1]), of.bytes(op.writes[:1])
    return (passes.row_reads - 1) * row + (passes.result_reads + passes.result_writes - 1) * result


# ── the optimizer ──


@dataclass(frozen=True, slots=True)
class StepBytes:
    """Bytes of the operands of an optimizer op on one rank, by role."""

    of_gradients: int  # preparation: flattening, casting, scaling and clipping
    masters: int
    moments: int
    updates: int
    scalars: int
    new: int  # of the weights in the model's type


def step_bytes(of: Operands) -> StepBytes:
    """Return the operand sizes in bytes from which the memory traffic of DeepSpeed's optimizer step follows (0.16.5,
    runtime/zero/stage3.py `step` and stage_1_and_2.py `step`). Traffic per parameter, with g bytes per number of the
    model's data type, w bytes per number of the master's, and two moments of w bytes each (right column: 16-bit model,
    g = 2 and w = 4):

        gradients side by side in one buffer (`flatten`)                  2 g            4
        cast to the master's type (`to`), if different                    g + w          6
        loss scale and clipping (`unscale_and_clip_grads`, `mul_`)        2 w            8
        Adam (csrc/adam/multi_tensor_adam.cu): reads gradient, master,
          moments; writes master, moments                                 4 w + 3 w     28
        new weights in the model's type (`copy_`)                         w + g          6
                                                                                        52 bytes per parameter

    Megatron-LM's step lacks the first line (48 bytes). LAMB's two passes (csrc/lamb/fused_lamb_cuda_kernel.cu) write
    the update instead of the master, computing the norms in the same pass; then they read update and master again to
    write the master. This adds 3 w (64 bytes).
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
    """Return the memory traffic of Adam in bytes, as listed in `step_bytes`."""
    step = step_bytes(of)
    return step.scalars + step.of_gradients + (3 * step.masters + 2 * step.moments) + (step.masters + step.new)


def lamb_update(of: Operands) -> int:
    """Return the memory traffic in bytes of LAMB's first pass, which reads gradients and moments and writes the
    update."""
    step = step_bytes(of)
    return step.scalars + step.of_gradients + (2 * step.masters + step.updates + 2 * step.moments)


def lamb(of: Operands) -> int:
    """Return the memory traffic in bytes of LAMB's second pass, which reads the update and writes masters and
    weights."""
    step = step_bytes(of)
    return step.scalars + (step.updates + 2 * step.masters) + (step.masters + step.new)


def muon_update(of: Operands) -> int:
    """Return the memory traffic in bytes of Muon's first pass: gradients are prepared as for Adam, without a master;
    the momentum is read and written, and the update written."""
    step = step_bytes(of)
    return step.scalars + step.of_gradients + (step.moments + step.updates) + 2 * step.moments


NEWTON_SCHULZ_STEPS: Final = 5  # of Muon (github.com/KellerJordan/Muon, arXiv 2502.16982, Megatron-Core's default)


def newton_schulz_flops(smaller: int, larger: int) -> int:
    """Return the flops of orthogonalising a matrix X with sides s <= l: each iteration computes A = X X^T (2 s^2 l), A
    squared (2 s^3) and their combination times X (2 s^2 l): 2 (2 n m^2 + m^3) in kellerjordan.github.io/posts/muon."""
    return NEWTON_SCHULZ_STEPS * (4 * smaller**2 * larger + 2 * smaller**3)


def newton_schulz(of: Operands) -> int:
    """Return the memory traffic of Newton-Schulz iterations in bytes: X is read to form A, and read and written when it
    is renewed; A is written, read to be squared and combined, and the result is written and read. The norm of X is
    taken before, and X scaled by it."""
    op = of.op
    whole, sizes = of.bytes(op.reads), op.local_sizes(of.mesh)
    _, (smaller,), (larger,), _ = op.matmul or ((), ("",), ("",), ())
    square = whole * sizes[smaller] // sizes[larger]
    return NEWTON_SCHULZ_STEPS * (3 * whole + 4 * square) + 3 * whole


# ── matrix products ──


def matmul_dtype(op: Compute, tensors: Mapping[str, Tensor]) -> str:
    """Return the data type in which a matrix product multiplies: the type of its first operand."""
    return tensors[op.reads[0].name].dtype


def matmul_shape(op: Compute, tensors: Mapping[str, Tensor], mesh: Mesh) -> tuple[int, int, int, int]:
    """Return the sizes (batch, m, n, k) of an op's matrix product on one rank. If the weight has more matrices than
    the op's iteration space has blocks, as where one block of rows is that of several experts, these are the sizes of
    each matrix's product: the rows of a block, a label that the weight lacks, are divided among its matrices."""
    assert op.matmul is not None
    sizes = op.local_sizes(mesh)
    batch, m, n, k = (math.prod(sizes[label] for label in labels) for labels in op.matmul)
    weight = weight_of(op, tensors)
    if weight is None or not op.matmul[0]:
        return batch, m, n, k
    label = op.matmul[0][0]
    each = weight.shape[weight.dims.index(label)] // dict(op.iteration)[label]
    has_rows = [not set(labels) & set(weight.dims) for labels in op.matmul[1:]]
    m, n, k = (-(-size // each) if is_row else size for size, is_row in zip((m, n, k), has_rows, strict=True))
    return batch * each, m, n, k


def weight_of(op: Compute, tensors: Mapping[str, Tensor]) -> Tensor | None:
    """Return the weight by which a matrix product multiplies, or whose gradient it computes; None for a product of
    values."""
    held = (tensors[ref.name] for ref in (*op.reads, *op.writes, *op.accumulates))
    return next((each for each in held if each.weight is not None), None)


def is_grouped(op: Compute, tensors: Mapping[str, Tensor]) -> bool:
    """Return whether an op multiplies by several matrices of a weight, as the experts of a layer have."""
    return op.matmul is not None and bool(op.matmul[0]) and weight_of(op, tensors) is not None


def matmul_form(op: Compute, tensors: Mapping[str, Tensor]) -> MatmulForm | None:
    """Return the transposition of a linear module's GEMM in BLAS notation (column-major: `tn`, `nn` or `nt`), as the
    last labels of its operands determine it.

    In column-major order, C (m x n) of A (m x k) and B (n x k) is computed as its transpose, with B before A. The first
    letter belongs to B (`n` if its last label is one of n, `t` if one of k), the second letter to A (`n` for k, `t` for
    m). So O = I W^T is `tn`, dI = dO W is `nn`, and dW = dO^T I is `nt`, for weights stored as [outputs, inputs].

    Return None for batched matrix products of values (those of attention, usually computed by fused kernels), and if
    both operands would be transposed or cannot be distinguished.
    """
    assert op.matmul is not None
    batch, m, n, k = op.matmul
    batch = () if is_grouped(op, tensors) else batch
    first, second = _operand(op, tensors, m, k), _operand(op, tensors, n, k)
    if batch or first is None or second is None:
        return None
    if first.dims[-1] in k:
        return "nn" if second.dims[-1] in n else "tn"
    return "nt" if second.dims[-1] in n else None


def _operand(op: Compute, tensors: Mapping[str, Tensor], own: tuple[str, ...], k: tuple[str, ...]) -> Tensor | None:
    """Return one factor of a matrix product: the first operand that has labels of its own side (`own`, the labels of m
    or n) and labels of k."""
    read = (tensors[ref.name] for ref in op.reads)
    return next((each for each in read if set(each.dims) & set(own) and set(each.dims) & set(k)), None)
