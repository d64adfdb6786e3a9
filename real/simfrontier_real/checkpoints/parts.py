"""Which part of a logical tensor a line of numbers is, in numbers alone; and whole tensors out of their parts.

A tensor's dimensions are cut first, which leaves a block of it. The block is a flat line, row by row, with zeros at its
end so that it divides; the line is a number of mixed radix, whose digits a part fixes or runs through. Values are moved
as the bits that they are, never converted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from simfrontier.errors import SimfrontierError
from simfrontier.schedule import Mesh, Tensor
from simfrontier_real.blocks import block_of

BITS: Final = {"F64": "<u8", "F32": "<u4", "F16": "<u2", "BF16": "<u2", "I64": "<u8", "U8": "|u1"}
"""By the name of a type in a file, what its numbers are as bits, in numpy's words."""
TYPES: Final = {
    **{"fp64": "F64", "fp32": "F32", "fp16": "F16", "bf16": "BF16", "int64": "I64", "uint8": "U8"},
    **{"moments64": "F64", "moments": "F32", "moments_bf16": "BF16"},
}
"""By the name of a type in a schedule, its name in a file."""


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a logical tensor. `block`: first index and end of each dimension. `digits`: of the block's flat line,
    the slowest first, (how many values the digit has, the one that this part fixes; None: all of them); what the sizes
    leave of the line is the fastest digit, of which a part has all."""

    block: tuple[tuple[int, int], ...]
    digits: tuple[tuple[int, int | None], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the block."""
        return tuple(end - first for first, end in self.block)

    @property
    def line(self) -> int:
        """Elements of the block's line, zeros at its end included."""
        count = math.prod(self.shape)
        return count + -count % math.prod(size for size, _ in self.digits)

    @property
    def num_elements(self) -> int:
        """Elements of this part, zeros at the end of the line included."""
        return self.line // math.prod(size for size, fixed in self.digits if fixed is not None)

    @property
    def _index(self) -> tuple[slice | int, ...]:
        return tuple(slice(None) if fixed is None else fixed for _, fixed in self.digits)

    def of_line(self, line: Any) -> Any:
        """A block's line as [digits …, rest], of it what this part has: a view."""
        return line.reshape(*(size for size, _ in self.digits), -1)[self._index]


def part_of(tensor: Tensor, mesh: Mesh, at: Mapping[str, int]) -> Part:
    """The part of a tensor that the rank at these coordinates holds."""
    block = block_of(tensor.shape, tensor.placement, mesh, at, tensor.name)
    digits = [(mesh[axis], at[axis] if axis in tensor.placement.flat else None) for axis in mesh.live(tensor.nesting)]
    return Part(tuple((each.start, each.stop) for each in block), tuple(digits))


def whole_of(shape: tuple[int, ...], parts: Iterable[tuple[Part, Any]], title: str) -> Any:
    """A logical tensor [*shape] out of parts, each with its elements as a flat array; of a part that comes again the
    first counts. Raises SimfrontierError where they do not fit together, or some of the tensor is missing."""
    import numpy as np

    lines: dict[tuple[tuple[int, int], ...], tuple[Part, Any, Any]] = {}
    dtype = None
    for part, values in parts:
        if len(part.block) != len(shape) or len(values) != part.num_elements:
            raise SimfrontierError(f"{title}: a part of {len(values)} elements is none of a tensor of {shape}")
        dtype = values.dtype
        like, line, there = lines.setdefault(
            part.block, (part, np.zeros(part.line, values.dtype), np.zeros(part.line, bool))
        )
        if line.dtype != values.dtype or like.line != part.line:
            raise SimfrontierError(f"{title}: its parts do not fit together")
        new = part.of_line(there)
        if not new.all():
            target = part.of_line(line)
            target[...] = np.where(new, target, values.reshape(target.shape))
            new[...] = True
    out, covered = np.zeros(shape, dtype), np.zeros(shape, bool)
    for block, (part, line, there) in lines.items():
        count, at = math.prod(part.shape), tuple(slice(first, end) for first, end in block)
        out[at], covered[at] = line[:count].reshape(part.shape), there[:count].reshape(part.shape)
    if not covered.all():
        missing = int(covered.size - covered.sum())
        raise SimfrontierError(f"{title}: {missing:,} of its {covered.size:,} elements are in no file")
    return out


def taken(whole: Any, part: Part) -> Any:
    """The elements of a part as a flat array, out of the whole tensor; zeros at the end of the line."""
    import numpy as np

    block = whole[tuple(slice(first, end) for first, end in part.block)].reshape(-1)
    line = np.concatenate([block, np.zeros(part.line - len(block), block.dtype)])
    return np.ascontiguousarray(part.of_line(line)).reshape(-1)
