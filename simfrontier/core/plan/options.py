"""Options that all families of plans share, and parsing of codec names."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from simfrontier.base.io import Names
from simfrontier.core.codecs import Codec, Plain, parse_codec
from simfrontier.core.collectives import in_plans
from simfrontier.core.plan.moves import HIERARCHICAL, Hop
from simfrontier.core.program import LIBRARY, Mesh
from simfrontier.core.workload import Attention, Checkpointing, Softmax

PLAIN = "plain"  # not coded: sent and stored in the model's own type


def codec_of(text: str) -> Codec | None:
    """Parse the name of a codec; `plain` gives None. Raises InputError."""
    return None if text == PLAIN else parse_codec(text)


def _codec(value: object) -> object:
    return codec_of(value) if isinstance(value, str) else value


MOST_MICRO_BATCHES = 1000  # of a step: they are laid out one by one
CodecText = Annotated[Codec | None, BeforeValidator(_codec)]
Reduction = Literal["all_reduce", "reduce_scatter"]


class Options(BaseModel):
    """Keys that every plan takes: its family, the codec of gradients that are not quantised, and (default: as
    `training` and `model` say) sequences of one rank of the batch in a micro-batch, micro-batches of a step,
    checkpointing, whether attention is fused, and the kernel of softmaxes; and of how many layers, the first ones of
    each stage, activations wait for the backward in the host's memory. `data_ranks`: the number of ranks among which
    the batch must be divided, as a check of the number of devices.

    A codec that is not given (or `plain`) is the model's own type.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True, defer_build=True)

    family: str
    gradient_codec: CodecText = None
    micro_batch: Annotated[int, Field(ge=1, le=2**20)] | None = None
    grad_accum: Annotated[int, Field(ge=1, le=MOST_MICRO_BATCHES)] | None = None
    checkpointing: Checkpointing | None = None
    attention: Attention | None = None
    softmax: Softmax | None = None
    offload_activations: Annotated[int, Field(ge=0, le=2**20)] = 0
    data_ranks: Annotated[int, Field(ge=1, le=2**20)] | None = None

    @property
    def on_data(self) -> Options:
        """The plan on the data axes; for a plan without other axes, this plan itself."""
        return self

    def batch_ranks(self, mesh: Mesh) -> int:
        """Return the number of ranks among which the batch is divided."""
        return mesh.num_ranks

    @property
    def micro_batches_together(self) -> int:
        """Number by which the micro-batches of a step must divide."""
        return 1

    def in_precision(self, dtype: str) -> Self:
        """Return the same options for display, with the model's own data type as the codec of uncoded messages."""
        own = Plain(dtype)
        written: dict[str, object] = {}
        for key, value in self:
            if isinstance(value, Options):
                written[key] = value.in_precision(dtype)
            elif isinstance(value, tuple):
                parts = [part.in_precision(dtype) if isinstance(part, HopOptions) else part for part in value]
                written[key] = tuple(parts)
            elif key.endswith("_codec") and key != "copy_codec":
                written[key] = value or own
        return self.model_copy(update=written)


class GatherOptions(Options):
    """And the codec of weights that are not quantised."""

    gather_codec: CodecText = None


class HopOptions(BaseModel):
    """One hop of a move in a scenario."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, arbitrary_types_allowed=True, defer_build=True)

    axes: tuple[str, ...] = Field(min_length=1)
    codec: CodecText = None
    via: Annotated[str, Names(LIBRARY, in_plans, HIERARCHICAL)] = LIBRARY

    def in_precision(self, dtype: str) -> Self:
        """Return the same hop for display, with the model's own data type as the codec of uncoded messages."""
        return self.model_copy(update={"codec": self.codec or Plain(dtype)})

    def hop(self) -> Hop:
        return Hop(self.axes, self.codec, self.via)


class ReductionOptions(HopOptions):
    """One hop of a gradient's move. `reduction`: where ranks keep a piece of the sum each, whether all of it is formed
    on all of them first."""

    reduction: Reduction = "reduce_scatter"

    def hop(self) -> Hop:
        return replace(HopOptions.hop(self), whole=self.reduction == "all_reduce")
