"""What a compute op takes on one rank: floating-point operations and bytes of device memory; never how long."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final, Literal

from simfrontier.dtypes import DTYPE_BYTES
from simfrontier.schedule.ir import Compute, Ref, Tensor, TensorRole
from simfrontier.schedule.kinds import GRADIENT_ROLES, KINDS_OF_EXTRAS, MOMENT_KINDS, WEIGHT_KINDS
from simfrontier.schedule.mesh import Mesh
from simfrontier.schedule.softmax import KERNELS

MatmulForm = Literal["tn", "nn", "nt"]
TRAFFIC: Final = {kind.name: kind.traffic for kind in KINDS_OF_EXTRAS}


def traffic_bytes(op: Compute, tensors: Mapping[str, Tensor], mesh: Mesh) -> int:
    """Bytes read and written: each operand once, of a piece its part (a softmax's row and result as often as its kernel
    passes over them, the optimizer's as often as its passes do), what is added to twice; of a table or a memory only
    the rows that are taken, of a queue only the entries that are replaced; the product that makes a weight's gradient
    does not read the weight that a hook fetched before it."""

    def total(refs: tuple[Ref, ...]) -> int:
        if op.piece is None:
            return sum(tensors[ref.name].local_bytes(mesh) for ref in refs)
        return sum(tensors[ref.name].local_bytes(mesh) // op.piece.share_of(tensors[ref.name]) for ref in refs)

    if op.kind == "lookup":
        return 2 * total(op.writes)
    if op.kind == "hook":
        return 0
    if op.kind == "scatter":  # adds rows into a gradient; the table that its module's hook fetched is not read
        return total(tuple(ref for ref in op.reads if tensors[ref.name].role != "gathered")) + total(op.writes)
    if op.kind == "slice":  # reads no more than it keeps
        return 2 * total(op.writes)
    if op.kind == "encode":  # likewise: what it encodes may be a piece of what it is given
        read = sum(
            min(
                tensors[a.name].local_bytes(mesh),
                tensors[b.name].local_elements(mesh) * DTYPE_BYTES[tensors[a.name].dtype],
            )
            for a, b in zip(op.reads, op.writes, strict=True)
        )
        return read + total(op.writes)
    if op.kind in MOMENT_KINDS | WEIGHT_KINDS:
        return _optimizer_bytes(op, tensors, mesh)
    traffic = TRAFFIC.get(op.kind)
    if traffic == "entries":  # of a state only those that are replaced
        return 2 * total(tuple(ref for ref in op.reads if tensors[ref.name].role != "state"))
    if traffic == "rows":  # of what is read; what says which is read as a whole
        searched = op.reads[:1] if any(tensors[ref.name].role == "state" for ref in op.reads) else ()
        return total(searched) + min(total(op.reads), total(op.writes)) + total(op.writes)
    reads = op.reads
    if op.matmul is not None and _makes_gradients_of_weights(op, tensors):  # likewise
        reads = tuple(ref for ref in reads if tensors[ref.name].role != "gathered")
    return total(reads) + total(op.writes) + 2 * total(op.accumulates) + _more_passes(op, total)


def _optimizer_bytes(op: Compute, tensors: Mapping[str, Tensor], mesh: Mesh) -> int:
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

    def total(refs: tuple[Ref, ...], *roles: TensorRole) -> int:
        return sum(tensors[ref.name].local_bytes(mesh) for ref in refs if tensors[ref.name].role in roles)

    gradients, masters = total(op.reads, *GRADIENT_ROLES), total(op.reads, "master")
    moments, scalars = total(op.reads, "optimizer"), total((*op.reads, *op.writes), "scalar", "norms")
    updates = total((*op.reads, *op.writes), "update")
    new = total(tuple(ref for ref in op.writes if ref not in op.reads), "weight", *GRADIENT_ROLES)
    types = {tensors[ref.name].dtype for ref in op.reads if tensors[ref.name].role in ("master", *GRADIENT_ROLES)}
    widened = gradients + masters if len(types) > 1 else 0
    of_gradients = 2 * gradients + widened + 2 * masters
    if op.kind == "lamb":
        return scalars + (updates + 2 * masters) + (masters + new)
    if op.kind == "lamb_update":
        return scalars + of_gradients + (2 * masters + updates + 2 * moments)
    return scalars + of_gradients + (3 * masters + 2 * moments) + (masters + new)


def _more_passes(op: Compute, total: Callable[[tuple[Ref, ...]], int]) -> int:
    """What a softmax's kernel reads and writes again."""
    if not op.kernel:
        return 0
    passes = KERNELS[op.kernel]
    row, result = total(op.reads[:1]), total(op.writes[:1])
    return (passes.row_reads - 1) * row + (passes.result_reads + passes.result_writes - 1) * result


def _makes_gradients_of_weights(op: Compute, tensors: Mapping[str, Tensor]) -> bool:
    return all(tensors[ref.name].role in GRADIENT_ROLES for ref in (*op.writes, *op.accumulates))


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
