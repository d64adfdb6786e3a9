"""What a compute op takes on one rank: floating-point operations and bytes of device memory; never how long."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from simfrontier.core.program.ir import Compute, Tensor
from simfrontier.core.program.kinds import kind_of
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.traffic import Operands

MatmulForm = Literal["tn", "nn", "nt"]


def traffic_bytes(op: Compute, tensors: Mapping[str, Tensor], mesh: Mesh) -> int:
    """Bytes of device memory that an op reads and writes on one rank, as its kind says (schedule.traffic)."""
    return kind_of(op).traffic(Operands(op, tensors, mesh))


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
