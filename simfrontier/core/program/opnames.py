"""The names of a model's ops, weights and values: what they are made of. Names are for people; nothing reads them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Part = Literal["backward", "dgrad", "wgrad", "dquery", "dkey", "dvalue", "dprobabilities"]
"""Which gradients of a forward op an op makes: all, or (Megatron-LM's dgrad and wgrad) those of its input or of its
weights, or of one operand of a product."""


class OpName(NamedTuple):
    """A module of a model, in streams (student, teacher …, the outermost first), and what of it an op computes:
    the forward, or a `part` of its backward; `is_sums` of one that first forms the sums over what ranks share."""

    module: str
    part: Part | None = None
    is_sums: bool = False
    streams: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """`teacher/qkv`, `qkv.dgrad`, `ln1.backward.sums`."""
        part = f".{self.part}" if self.part else ""
        return in_streams(self.streams, f"{self.module}{part}{'.sums' if self.is_sums else ''}")

    @property
    def forward(self) -> OpName:
        """The op of the forward whose gradients this makes."""
        return OpName(self.module, streams=self.streams)


NO_MODULE: Final = OpName("")  # of an op that is none of the model's


def in_streams(streams: Sequence[str], local: str) -> str:
    """The name of an op, a weight or a value in these streams: `teacher/relation/qkv.weight`."""
    return "/".join((*streams, local))
