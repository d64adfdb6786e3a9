"""Codecs: how the elements of a message are written on the wire, in how many messages, and at how many bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simfrontier.errors import InputError, nearest

_BITS: Final = {"fp64": 64, "fp32": 32, "fp16": 16, "bf16": 16, "int8": 8, "int4": 4}
_BLOCKED: Final = ("int8", "int4")
_SCALE_BYTES: Final = 4  # one FP32 scale per block (DeepSpeed 0.16.5, csrc/quantization)
DTYPE_BYTES: Final = {
    "fp64": 8,
    "fp32": 4,
    "fp16": 2,
    "bf16": 2,
    "int64": 8,
    "token": 0,
    "moments": 8,  # Adam's two of one element, in fp32
    "moments64": 16,  # and in fp64
}


@dataclass(frozen=True, slots=True)
class Codec:
    """A wire format: bits per element and, for the quantised ones, the elements that share one FP32 scale."""

    name: str
    block: int = 0

    @property
    def bits(self) -> int:
        return _BITS[self.name]

    @property
    def is_quantised(self) -> bool:
        return self.block > 0

    def payload_bytes(self, elements: int) -> int:
        return -(-elements * self.bits // 8)

    def scale_bytes(self, elements: int) -> int:
        return _SCALE_BYTES * -(-elements // self.block) if self.is_quantised else 0

    def wire_bytes(self, elements: int) -> int:
        return self.payload_bytes(elements) + self.scale_bytes(elements)

    def __str__(self) -> str:
        return f"{self.name}:{self.block}" if self.is_quantised else self.name


def parse_codec(text: str) -> Codec:
    """`fp64`, `fp32`, `fp16`, `bf16`, or `int8:BLOCK`, `int4:BLOCK` with the block in elements; raises InputError."""
    name, _, block = text.partition(":")
    if name not in _BITS:
        raise InputError(f"codec {text!r}: {nearest(name, tuple(_BITS))}")
    if name not in _BLOCKED:
        if block:
            raise InputError(f"codec {text!r}: {name} takes no block size")
        return Codec(name)
    if not block.isdecimal() or int(block) < 1:
        raise InputError(f"codec {text!r}: write {name}:BLOCK with BLOCK elements per scale, e.g. {name}:6144")
    return Codec(name, int(block))
