"""Protocol of model shapes: sizes, the graph of a micro-batch, and the plans that can train the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, runtime_checkable

from simfrontier.base.errors import InputError
from simfrontier.core.workload.graph import Attention, Checkpointing, Optimizer, Precision, Workload, find_precision
from simfrontier.core.workload.graph_builder import Softmax

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


@runtime_checkable
class Shape(Protocol):
    """Shape of a model, a dataclass of the core or of an extra; the `models` module of an extra has its named
    shapes."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __hash__(self) -> int: ...

    @property
    def name(self) -> str: ...

    @property
    def num_layers(self) -> int: ...

    @property
    def hidden(self) -> int: ...

    @property
    def sequence(self) -> int:
        """Tokens per sample; 1 if a sample is a single position."""

    @property
    def num_parameters(self) -> int: ...

    @property
    def source(self) -> str:
        """Publication of the shape."""

    @property
    def sample(self) -> str:
        """Description of what a sample is."""

    @property
    def families(self) -> tuple[str, ...]:
        """Plan families that can train the model; empty: all."""

    @property
    def gathers_statistics(self) -> bool:
        """True if a step gathers statistics over all samples that are needed only in later steps."""

    def refuse_step(self, grad_accum: int, precision: str, checkpointing: Checkpointing) -> None:
        """Raise InputError for a step that the model does not support because of its number of micro-batches, its
        precision, or its checkpointing."""

    def with_settings(self, settings: Mapping[str, Any]) -> Shape:
        """Return the shape with other sizes and traits. Raises InputError for a size or trait that cannot be set."""

    def workload(
        self, batch: int, checkpointing: Checkpointing, precision: str, attention: Attention, softmax: Softmax
    ) -> Workload:
        """Return the graph of one micro-batch of `batch` samples, summed over all data-parallel ranks. Raises
        InputError."""

    def step_flops(self, samples: int, recomputed: bool) -> float:
        """Return the flops of one step of `samples` samples over all ranks, with or without recomputed forwards."""


class OfAnyPlan:
    """Base class of shapes that every plan can train, without restrictions on the step."""

    __slots__ = ()

    @property
    def families(self) -> tuple[str, ...]:
        return ()

    @property
    def gathers_statistics(self) -> bool:
        return False

    def refuse_step(self, grad_accum: int, precision: str, checkpointing: Checkpointing) -> None:
        return None


def num_blocks(shape: Shape) -> int:
    """Return the number of layers of a shape's graph: with those of multi-token prediction of a GPT."""
    return getattr(shape, "num_blocks", shape.num_layers)


def sizes_of(shape: DataclassInstance | type[DataclassInstance]) -> tuple[str, ...]:
    """Return the names of a shape's sizes, in the order of declaration."""
    return tuple(each.name for each in fields(shape) if each.type == "int")


@lru_cache(maxsize=64)  # a search asks for the same few again and again
def workload_of(
    shape: Shape,
    batch: int,
    checkpointing: Checkpointing,
    precision: str | Precision = "fp16",
    attention: Attention = "plain",
    softmax: Softmax = "fused",
    checkpoint_every: int = 1,
    optimizer: Optimizer = "adam",
) -> Workload:
    """Return the graph of one micro-batch of `batch` samples, summed over all data-parallel ranks, with the number
    types and the optimizer of the weights. Raises InputError."""
    types = find_precision(precision) if isinstance(precision, str) else precision
    work = shape.workload(batch, checkpointing, types.name, attention, softmax)
    if (types, optimizer) != (work.precision, work.optimizer):
        work = replace(work, precision=types, optimizer=optimizer)
    if checkpoint_every != 1 and checkpointing != "full":
        raise InputError(
            f'model.checkpoint_every = {checkpoint_every}: of layers, which checkpointing = "{checkpointing}" is not; '
            'allowed: 1, or checkpointing = "full"'
        )
    return work if checkpoint_every == 1 else replace(work, checkpoint_every=checkpoint_every)
