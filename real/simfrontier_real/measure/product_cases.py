"""Matrix products to be timed: squares, and those of linear modules of the models, forward and backward."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from simfrontier.core.program import MATMUL, Part
from simfrontier.core.workload import MODELS, GptShape, gpt

Form = Literal["tn", "nn", "nt"]
# Of linear modules, with weights that lie as [outputs, inputs], by what of the module a product makes.
FORMS: Final[dict[Part | None, Form]] = {None: "tn", "dgrad": "nn", "wgrad": "nt"}
TF32: Final = "tf32"  # fp32 numbers, multiplied with 10 bits of their fractions
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", TF32: "float32", "fp32": "float32"}  # torch's, by ours


@dataclass(frozen=True, slots=True)
class ProductShape:
    """A product (m x k)(k x n); `form` is that of `core.program.matmul_form`: which operands lie transposed."""

    m: int
    n: int
    k: int
    form: Form = "tn"

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k


@dataclass(frozen=True, slots=True)
class ProductCase:
    """A product of numbers of one type."""

    shape: ProductShape
    dtype: str

    def __str__(self) -> str:
        return f"product {self.dtype} {self.shape.m}x{self.shape.n}x{self.shape.k} {self.shape.form}"

    def work(self, kind: str) -> Any:
        """What is timed: the product of two normally distributed matrices on a device of that kind."""
        import torch

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
    """The products of a GPT's linear modules, one sequence at once, each shape once. Products of attention, which have
    a batch, are left out."""
    shape = MODELS[name]
    assert isinstance(shape, GptShape)
    work = gpt(shape, 1, "none")
    out: dict[ProductShape, None] = {}
    for phase in (work.embedding, work.layer, work.head):
        for op in (*phase.forward, *phase.backward):
            if op.kind == MATMUL.name:
                sizes = dict(op.iteration)
                assert op.matmul is not None
                _, m, n, k = (math.prod(sizes[label] for label in labels) for labels in op.matmul)
                out[ProductShape(m, n, k, FORMS[op.named.part])] = None
    return tuple(out)


def product_cases(edges: Sequence[int], models: Sequence[str], dtypes: Sequence[str]) -> Iterator[ProductCase]:
    """Squares first, then the models one by one; every shape once, in all types."""
    shapes = dict.fromkeys(ProductShape(edge, edge, edge) for edge in edges)
    shapes |= dict.fromkeys(shape for name in models for shape in shapes_of(name))
    for shape in shapes:
        for dtype in dtypes:
            yield ProductCase(shape, dtype)
