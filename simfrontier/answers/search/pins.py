"""Pins: the dimensions of the space of plans, and the values to which a user holds them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from simfrontier.answers.search.states import CODECS, COMPRESSIONS, LEVELS, NAMED, ROUTES
from simfrontier.base.errors import InputError, Key, meant, nearest
from simfrontier.core.workload import Checkpointing, CrossEntropy, Softmax

Value = int | str | bool
FAMILIES = ("zero", "megatron", "axonn")
LARGEST = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanDimension:
    """One dimension: what it says, and its values: numbers, yes or no, or words (`allowed`)."""

    description: str
    kind: Literal["number", "flag", "word"]
    allowed: tuple[str, ...] = ()


ALSO_CALLED: Mapping[str, str] = {"tp": "tensor", "pp": "pipeline", "sp": "sequence_parallel", "mbs": "micro_batch"}
DIMENSIONS: Mapping[str, PlanDimension] = {
    "family": PlanDimension(description="zero (no grid), megatron or axonn", kind="word", allowed=FAMILIES),
    "tensor": PlanDimension(description="tensor-parallel ranks (megatron)", kind="number"),
    "sequence_parallel": PlanDimension(description="norms sharded along the sequence (megatron)", kind="flag"),
    "x": PlanDimension(description="ranks that share the inputs of products (axonn)", kind="number"),
    "y": PlanDimension(description="ranks that share the outputs of products (axonn)", kind="number"),
    "z": PlanDimension(description="ranks that share the storage of weights (axonn)", kind="number"),
    "pipeline": PlanDimension(description="stages", kind="number"),
    "order": PlanDimension(description="order of micro-batches", kind="word", allowed=("1f1b", "gpipe")),
    "states": PlanDimension(
        description="sharding of weights/gradients/optimizer on the data axes",
        kind="word",
        allowed=(
            *NAMED.values(),
            *(
                "/".join((w, g, o))
                for i, w in enumerate(LEVELS)
                for j, g in enumerate(LEVELS[i:], i)
                for o in LEVELS[j:]
            ),
        ),
    ),
    "copy": PlanDimension(description="a second copy of the weights in each node", kind="flag"),
    "route": PlanDimension(description="moves that leave the node in one hop or two", kind="word", allowed=ROUTES),
    "codec": PlanDimension(description="lossy codecs of messages", kind="word", allowed=CODECS),
    "compression": PlanDimension(
        description="compression policy (megatron)",
        kind="word",
        allowed=COMPRESSIONS,
    ),
    "cross_entropy": PlanDimension(
        description="form of the loss over a sharded vocabulary (megatron, axonn)",
        kind="word",
        allowed=get_args(CrossEntropy),
    ),
    "softmax": PlanDimension(
        description="the kernel of softmaxes over whole rows", kind="word", allowed=get_args(Softmax)
    ),
    "micro_batch": PlanDimension(description="sequences of a rank in a micro-batch", kind="number"),
    "checkpointing": PlanDimension(
        description="whether activations are recomputed", kind="word", allowed=get_args(Checkpointing)
    ),
}


@dataclass(frozen=True, slots=True)
class Pins:
    """Values to which dimensions are held; a dimension that is not named is free."""

    values: Mapping[str, tuple[Value, ...]]

    def of(self, name: str, free: Sequence[Value]) -> tuple[Value, ...]:
        """The values of a dimension: those it is held to, in that order, or else all that are `free`."""
        return self.values.get(name, tuple(free))

    def numbers(self, name: str, free: Sequence[int]) -> tuple[int, ...]:
        """The same of a dimension of numbers."""
        return tuple(int(value) for value in self.of(name, free))

    def allow(self, name: str, value: Value) -> bool:
        """Whether a dimension may have this value."""
        return name not in self.values or value in self.values[name]

    def without(self, name: str) -> Pins:
        """The same with one dimension free."""
        return Pins({key: values for key, values in self.values.items() if key != name})

    def __str__(self) -> str:
        return ", ".join(f"{name} = {' or '.join(map(written, values))}" for name, values in self.values.items())


def written(value: Value) -> str:
    """A value as one writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def pins_of(table: Mapping[str, Value | Sequence[Value]], place: Key = ("tune", "pin")) -> Pins:
    """Pins out of a table of a scenario: a value or a list of them per dimension. Raises InputError at `place` or a
    dimension below it."""
    out: dict[str, tuple[Value, ...]] = {}
    for name, given in table.items():
        if name not in DIMENSIONS:
            likely = ALSO_CALLED.get(str(name).lower())
            hint = f'did you mean "{likely}"?' if likely else meant(str(name), DIMENSIONS)
            raise InputError(f"{name!r} is no dimension of a plan; {hint}", key=place)
        several = given if isinstance(given, list | tuple) else (given,)
        if not several:
            raise InputError(f"got nothing; allowed: {_allowed(name)}", key=(*place, name))
        out[name] = tuple(dict.fromkeys(_checked(name, value, (*place, name)) for value in several))
    return Pins(out)


def parse_pin(text: str) -> tuple[str, list[Value]]:
    """`tensor=4,8` of the command line. Raises InputError."""
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise InputError(f"--pin {text!r}: write dimension=value or dimension=value,value, e.g. tensor=4,8")
    return name.strip(), [_read(value.strip()) for value in values.split(",")]


def _read(text: str) -> Value:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else text


def _checked(name: str, value: Value, key: Key) -> Value:
    dimension = DIMENSIONS[name]
    if dimension.kind == "number":
        good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST
    elif dimension.kind == "flag":
        good = isinstance(value, bool)
    else:
        good = isinstance(value, str) and value in dimension.allowed
    if not good:
        hint = nearest(value, dimension.allowed) if isinstance(value, str) and dimension.allowed else ""
        raise InputError(f"got {written(value)!r}; {hint or 'allowed: ' + _allowed(name)}", key=key)
    return value


def _allowed(name: str) -> str:
    dimension = DIMENSIONS[name]
    if dimension.kind == "number":
        return f"numbers from 1 to {LARGEST:,}"
    return "true, false" if dimension.kind == "flag" else ", ".join(dimension.allowed)
