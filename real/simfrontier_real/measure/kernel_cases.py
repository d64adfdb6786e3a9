"""Kernels to be timed: copies, softmax, layer norm, a step of Adam and fused attention, by shape and type."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Final

from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.workload import MODELS, GptShape
from simfrontier.inputs.measured import KernelKind
from simfrontier_real.measure.product_cases import DTYPES

NARROW: Final = ("bf16", "fp16")
ATTENTION_PRODUCTS: Final = 7  # two forward; backward the scores again and four gradients
# Tensors of the operand's size that a kernel reads and writes at least. Adam: weight, gradient and both moments are
# read, all but the gradient written. Attention: three read and one written forward; five read, three written backward.
ACCESSES: Final[dict[KernelKind, int]] = {"copy": 2, "softmax": 2, "layernorm": 2, "adam": 7, "attention": 12}


@dataclass(frozen=True, slots=True)
class KernelCase:
    """A kernel on an operand of that shape; of attention (batch, heads, sequence, features of a head), causal, forward
    and backward."""

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
        """Of attention's products, by the s (s + 1) / 2 pairs of positions that causal attention has."""
        if self.kernel != "attention":
            return None
        batch, heads, length, features = self.shape
        return ATTENTION_PRODUCTS * 2 * batch * heads * features * (length * (length + 1) // 2)

    def work(self, kind: str) -> Callable[[], object]:
        """What is timed, on a device of that kind."""
        import torch

        values = torch.randn(self.shape, device=kind, dtype=getattr(torch, DTYPES[self.dtype]))
        made: Callable[[Any, str], Callable[[], object]] = _WORKS[self.kernel]
        return made(values, kind)


def _copy(values: Any, kind: str) -> Callable[[], object]:
    import torch

    out = torch.empty_like(values)
    return lambda: out.copy_(values)


def _softmax(values: Any, kind: str) -> Callable[[], object]:
    import torch

    return lambda: torch.softmax(values, dim=-1)


def _layernorm(values: Any, kind: str) -> Callable[[], object]:
    import torch

    weight, bias = torch.ones_like(values[0]), torch.zeros_like(values[0])
    return lambda: torch.nn.functional.layer_norm(values, values.shape[-1:], weight, bias)


def _adam(values: Any, kind: str) -> Callable[[], object]:
    import torch

    weight = torch.nn.Parameter(values)
    weight.grad = torch.randn_like(values)
    optimizer = torch.optim.Adam([weight], lr=1e-3, fused=True)
    return optimizer.step


def _attention(values: Any, kind: str) -> Callable[[], object]:
    """On a GPU by torch's FlashAttention, and no other; on the host by what torch takes."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

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
    """Copies and steps of Adam of so many numbers, then the kernels of one sequence of each model, each shape once."""
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
