"""Cases for the timing of matrix products and kernels, by shape and number type."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final, Literal

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.program import MATMUL, Part
from simfrontier.core.workload import MODELS, GptShape, gpt
from simfrontier.inputs.measured import KernelKind

Form = Literal["tn", "nn", "nt"]
# Of linear modules, with weights that lie as [outputs, inputs], by what of the module a product makes.
FORMS: Final[dict[Part | None, Form]] = {None: "tn", "dgrad": "nn", "wgrad": "nt"}
TF32: Final = "tf32"  # fp32 numbers, multiplied with 10 bits of their fractions
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", TF32: "float32", "fp32": "float32"}  # torch's, by ours


@dataclass(frozen=True, slots=True)
class ProductShape:
    """Shape of a matrix product (m x k)(k x n); `form`, as in `core.program.matmul_form`, says which operands are
    transposed."""

    m: int
    n: int
    k: int
    form: Form = "tn"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class ProductCase:
    """Matrix product of one shape with one number type."""

    shape: ProductShape
    dtype: str

    def __str__(self) -> str:
        return f"product {self.dtype} {self.shape.m}x{self.shape.n}x{self.shape.k} {self.shape.form}"

    def work(self, kind: str) -> Any:
        """Return the work to be timed: the product of two matrices of normally distributed numbers on a device of kind
        `kind`."""
        dtype = getattr(torch, DTYPES[self.dtype])
        m, n, k = self.shape.m, self.shape.n, self.shape.k

        def matrix(rows: int, columns: int, transposed: bool) -> Any:
            made = torch.randn((columns, rows) if transposed else (rows, columns), device=kind, dtype=dtype)
            return made.T if transposed else made

        left = matrix(m, k, self.shape.form == "nt")
        right = matrix(k, n, self.shape.form == "tn")
        out = torch.empty((m, n), device=kind, dtype=dtype)
        return lambda: torch.matmul(left, right, out=out)


def shapes_of(name: str) -> tuple[ProductShape, ...]:
    """Return the distinct shapes of the matrix products in a GPT's linear modules for a single sequence. The batched
    matrix products of attention are left out."""
    shape = MODELS[name]
    assert isinstance(shape, GptShape)
    work = gpt(shape, 1, "none")
    out: dict[ProductShape, None] = {}
    for phase in (work.embedding, *work.kinds, work.head):
        for op in (*phase.forward, *phase.backward):
            if op.kind == MATMUL.name:
                sizes = dict(op.iteration)
                assert op.matmul is not None
                _, m, n, k = (math.prod(sizes[label] for label in labels) for labels in op.matmul)
                out[ProductShape(m, n, k, FORMS[op.named.part])] = None
    return tuple(out)


def product_cases(edges: Sequence[int], models: Sequence[str], dtypes: Sequence[str]) -> Iterator[ProductCase]:
    """Return the cases of square matrix products, then those of each model; each shape once, with all number types."""
    shapes = dict.fromkeys(ProductShape(edge, edge, edge) for edge in edges)
    shapes |= dict.fromkeys(shape for name in models for shape in shapes_of(name))
    for shape in shapes:
        for dtype in dtypes:
            yield ProductCase(shape, dtype)


NARROW: Final = ("bf16", "fp16")
ATTENTION_PRODUCTS: Final = 7  # two forward; backward the scores again and four gradients
# Tensors of the operand's size that a kernel reads and writes at least. Adam: weight, gradient and both moments are
# read, all but the gradient written. Attention: three read and one written forward; five read, three written backward.
ACCESSES: Final[dict[KernelKind, int]] = {"copy": 2, "softmax": 2, "layernorm": 2, "adam": 7, "attention": 12}


@dataclass(frozen=True, slots=True)
class KernelCase:
    """Kernel on an operand of shape `shape`; for attention, which is causal and timed forward and backward, the shape
    is (batch, heads, sequence, features per head)."""

    kernel: KernelKind
    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.kernel} {self.dtype} {self.shape_text}"

    @property
    def shape_text(self) -> str:
        return "x".join(map(str, self.shape))

    @property
    def num_bytes(self) -> int:
        return ACCESSES[self.kernel] * math.prod(self.shape) * DTYPE_BYTES[self.dtype]

    @property
    def flops(self) -> int | None:
        """Return the floating-point operations of attention's matrix products, for the s (s + 1) / 2 pairs of positions
        of causal attention; None for other kernels."""
        if self.kernel != "attention":
            return None
        batch, heads, length, features = self.shape
        return ATTENTION_PRODUCTS * 2 * batch * heads * features * (length * (length + 1) // 2)

    def work(self, kind: str) -> Callable[[], object]:
        """Return the work to be timed, with its operands on a device of kind `kind`."""
        values = torch.randn(self.shape, device=kind, dtype=getattr(torch, DTYPES[self.dtype]))
        made: Callable[[Any, str], Callable[[], object]] = _WORKS[self.kernel]
        return made(values, kind)


def _copy(values: Any, kind: str) -> Callable[[], object]:
    out = torch.empty_like(values)
    return lambda: out.copy_(values)


def _softmax(values: Any, kind: str) -> Callable[[], object]:
    return lambda: torch.softmax(values, dim=-1)


def _layernorm(values: Any, kind: str) -> Callable[[], object]:
    weight, bias = torch.ones_like(values[0]), torch.zeros_like(values[0])
    return lambda: torch.nn.functional.layer_norm(values, values.shape[-1:], weight, bias)


def _adam(values: Any, kind: str) -> Callable[[], object]:
    weight = torch.nn.Parameter(values)
    weight.grad = torch.randn_like(values)
    optimizer = torch.optim.Adam([weight], lr=1e-3, fused=True)
    return optimizer.step


def _attention(values: Any, kind: str) -> Callable[[], object]:
    """Return the work of attention: on a GPU with torch's FlashAttention only, on the host with the kernel that torch
    selects."""
    query, key, value = operands = tuple(torch.randn_like(values).requires_grad_() for _ in range(3))

    def run() -> object:
        with sdpa_kernel(SDPBackend.FLASH_ATTENTION) if kind == "cuda" else nullcontext():
            out = torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            return torch.autograd.grad(out, operands, values)

    return run


_WORKS: Final = {
    "copy": _copy,
    "softmax": _softmax,
    "layernorm": _layernorm,
    "adam": _adam,
    "attention": _attention,
}


def kernel_cases(models: Sequence[str], dtypes: Sequence[str], counts: Sequence[int]) -> Iterator[KernelCase]:
    """Yield copies and Adam steps of `counts` elements, then the kernels of each model for a single sequence; each
    shape once."""
    cases = [KernelCase("copy", (count,), dtype) for count in counts for dtype in dtypes]
    cases += [KernelCase("adam", (count,), "fp32") for count in counts]
    for name in models:
        shape = MODELS[name]
        assert isinstance(shape, GptShape)
        heads, length = shape.heads, shape.sequence
        cases += [KernelCase("attention", (1, heads, length, shape.hidden // heads), dtype) for dtype in NARROW]
        for dtype in dtypes:
            cases.append(KernelCase("layernorm", (length, shape.hidden), dtype))
            cases.append(KernelCase("softmax", (heads, length, length), dtype))
    yield from dict.fromkeys(cases)
