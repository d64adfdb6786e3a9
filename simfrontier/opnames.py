"""The names of a model's ops, weights and states: what they are made of, and the only place that reads them."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple, cast, get_args

Part = Literal["backward", "dgrad", "wgrad", "dquery", "dkey", "dvalue", "dprobabilities"]
"""Which gradients of a forward op an op makes: all, or (Megatron-LM's dgrad and wgrad) those of its input or of its
weights, or of one operand of a product."""
PARTS: Final = frozenset(get_args(Part))
_SUMS: Final = ".sums"


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
        last = self.module + (f".{self.part}" if self.part else "") + _SUMS * self.is_sums
        return "/".join((*self.streams, last)) if self.streams else last

    @property
    def forward(self) -> OpName:
        """The op of the forward whose gradients this makes."""
        return OpName(self.module, streams=self.streams)


NO_MODULE: Final = OpName("")  # of an op that is none of the model's


def op_named(text: str) -> OpName:
    """What a name says; the text of that is the name again."""
    *streams, last = text.split("/")
    bare = last.removesuffix(_SUMS)
    module, _, part = bare.rpartition(".")
    if module and part in PARTS:
        return OpName(module, cast(Part, part), bare != last, tuple(streams))
    return OpName(bare, None, bare != last, tuple(streams))


def in_its_stream(name: str) -> str:
    """The name without the streams that it is in: `qkv.weight` of `teacher/relation/qkv.weight`."""
    return name.rpartition("/")[2]


def without_stream(name: str, stream: str) -> str:
    """The name outside that outermost stream: `relation/qkv.weight` of `teacher/relation/qkv.weight`."""
    outer, slash, rest = name.partition("/")
    return rest if slash and outer == stream else name


def parameter_of(name: str) -> str:
    """Which of its module's weights or states one is: `bias` of `ln1.bias`, `queue` of `teacher/instance.queue`,
    `memory` of `local/memory`."""
    return in_its_stream(name).rpartition(".")[2]
