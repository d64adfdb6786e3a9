"""Names in a schedule: names of a model's ops and of tensors (for display only), and names of collective algorithms."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

Stage = Literal["forward", "recompute", "backward"]
"""The passes of a step."""
Part = Literal["backward", "dgrad", "wgrad", "dquery", "dkey", "dvalue", "dprobabilities"]
"""Which gradients of a forward op an op makes: all, or (Megatron-LM's dgrad and wgrad) those of its input or of its
weights, or of one operand of a product."""


class OpName(NamedTuple):
    """Structured name of an op of a model: its `module`, the `streams` it belongs to (student, teacher …, the outermost
    first), and the `part` of the backward that it computes (None: the forward). `is_sums` marks an op that computes
    statistics to be summed over the ranks that share a row."""

    module: str
    part: Part | None = None
    is_sums: bool = False
    streams: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """The name as text: `teacher/qkv`, `qkv.dgrad`, `ln1.backward.sums`."""
        part = f".{self.part}" if self.part else ""
        return in_streams(self.streams, f"{self.module}{part}{'.sums' if self.is_sums else ''}")

    @property
    def forward(self) -> OpName:
        """Name of the forward op whose gradients this op computes."""
        return OpName(self.module, streams=self.streams)


NO_MODULE: Final = OpName("")  # of an op outside the model


def in_streams(streams: Sequence[str], local: str) -> str:
    """Return the name of an op, a weight or a value in these streams: `teacher/relation/qkv.weight`."""
    return "/".join((*streams, local)) if streams else local


# ── tensors ──


def gathered_name(weight: str, stage: Stage, use: str = "") -> str:
    """Return the name of a weight that is gathered for one pass; `use` distinguishes several gathers in the same
    pass."""
    return f"{weight}.full{use}.{stage}"


def value_name(value: str, again: bool = False, stage: Stage | None = None, is_partial: bool = False) -> str:
    """Return the name of a tensor that represents a value: recomputed (`again`), gathered for the op that reads it in
    one pass (`stage`), or not yet summed over ranks (`is_partial`)."""
    return value + ".again" * again + (f".gathered.{stage}" if stage else "") + ".partial" * is_partial


def buffer_name(end: str, suffix: str) -> str:
    """Return the name of an intermediate buffer for the data of the tensor `end`."""
    return f"{end}.{suffix}"


# ── collective algorithms: the values of a collective's `via` ──

# each is a file of that name in collectives/algorithms, with its transfers and its times
RING: Final = "ring"
RING_TWICE: Final = "ring_twice"
DIRECT: Final = "direct"
TREE: Final = "tree"
HALVING: Final = "halving"
TWO_LEVEL: Final = "two_level"
NVLS: Final = "nvls"
DEEPEP: Final = "deepep"
HYBRIDEP: Final = "hybridep"
RBD: Final = "rbd"
DISPATCHERS: Final = (DEEPEP, HYBRIDEP, RBD)  # of experts' rows; all in the file dispatchers.py
SHIFT: Final = "shift"
ALGORITHMS: Final = (RING, RING_TWICE, DIRECT, TREE, HALVING, TWO_LEVEL, NVLS, *DISPATCHERS, SHIFT)

LIBRARY: Final = "library"
"""The `via` of a collective whose algorithm the library chooses."""
VIAS: Final = (LIBRARY, *ALGORITHMS)
