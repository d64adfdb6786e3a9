"""Pins: dimensions of the space of plans that a user fixes to given values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import get_args

from simfrontier.answers.search.states import CODECS, COMPRESSIONS, INT4, INT8, LEVELS, NAMED, ROUTES
from simfrontier.base.errors import InputError, Key, meant, nearest
from simfrontier.core.codecs import parse_codec
from simfrontier.core.plan import PipelineOrder, compression_of
from simfrontier.core.workload import Checkpointing, CrossEntropy, Softmax
from simfrontier.inputs.scenario.words import PLAN_KEYS, value_in_words

Value = int | str | bool
FAMILIES = ("zero", "megatron", "axonn")
LARGEST = 2**20


@dataclass(frozen=True, slots=True)
class PlanDimension:
    """A dimension of the space of plans: its meaning, and its possible values; () for whole numbers from 1 on."""

    description: str
    allowed: tuple[Value, ...] = ()


POINTS = (*combinations_with_replacement(LEVELS, 3),)  # who shares weights, gradients and optimizer
DIMENSIONS: Mapping[str, PlanDimension] = {
    "family": PlanDimension("zero (no grid), megatron or axonn", FAMILIES),
    "tensor": PlanDimension("tensor-parallel ranks (megatron)"),
    "sequence_parallel": PlanDimension("norms sharded along the sequence (megatron)", (True, False)),
    "expert": PlanDimension("ranks among which the experts of a layer are divided (megatron)"),
    "context": PlanDimension("ranks among which the sequence is divided (megatron)"),
    "x": PlanDimension("ranks that share the inputs of products (axonn)"),
    "y": PlanDimension("ranks that share the outputs of products (axonn)"),
    "z": PlanDimension("ranks that share the storage of weights (axonn)"),
    "pipeline": PlanDimension("stages"),
    "order": PlanDimension("order of micro-batches (megatron)", get_args(PipelineOrder)),
    "states": PlanDimension(
        "sharding of weights/gradients/optimizer on the data axes", (*NAMED.values(), *map("/".join, POINTS))
    ),
    "copy": PlanDimension("a second copy of the weights in each node", (True, False)),
    "route": PlanDimension("moves that leave the node in one hop or two", ROUTES),
    "codec": PlanDimension("lossy codecs of messages", CODECS),
    "compression": PlanDimension("compression policy (megatron)", COMPRESSIONS),
    "cross_entropy": PlanDimension(
        "form of the loss over a sharded vocabulary (megatron, axonn)", get_args(CrossEntropy)
    ),
    "softmax": PlanDimension("the kernel of softmaxes over whole rows", get_args(Softmax)),
    "micro_batch": PlanDimension("sequences of a rank in a micro-batch"),
    "checkpointing": PlanDimension("whether activations are recomputed", get_args(Checkpointing)),
}


@dataclass(frozen=True, slots=True)
class Pins:
    """Values to which dimensions are fixed; a dimension that is not named is free."""

    values: Mapping[str, tuple[Value, ...]]

    def of(self, name: str, free: Sequence[Value]) -> tuple[Value, ...]:
        """Return the values of a dimension: the pinned values in the user's order, or all `free` values if it is not
        pinned.
        """
        return self.values.get(name, tuple(free))

    def numbers(self, name: str, free: Sequence[int]) -> tuple[int, ...]:
        """Return the values of a numeric dimension, as `of` does."""
        return tuple(int(value) for value in self.of(name, free))

    def allow(self, name: str, value: Value) -> bool:
        """Return whether a dimension may have this value."""
        return name not in self.values or value in self.values[name]

    def without(self, name: str) -> Pins:
        """Return the pins without that of one dimension."""
        return Pins({key: values for key, values in self.values.items() if key != name})

    def __str__(self) -> str:
        return ", ".join(f"{name} = {' or '.join(map(written, values))}" for name, values in self.values.items())


def written(value: Value) -> str:
    """Return a value in the notation of user input."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def pins_of(table: Mapping[str, Value | Sequence[Value]], place: Key = ("tune", "pin")) -> Pins:
    """Return pins out of a table of a scenario: a value or a list of them per dimension. Raises InputError at `place`
    or a dimension below it."""
    out: dict[str, tuple[Value, ...]] = {}
    for name, given in table.items():
        if name not in DIMENSIONS:
            likely = PLAN_KEYS.get(str(name).lower())
            hint = f'did you mean "{likely}"?' if likely in DIMENSIONS else meant(str(name), DIMENSIONS)
            raise InputError(f"{name!r} is no dimension of a plan; {hint}", key=place)
        several = given if isinstance(given, list | tuple) else (given,)
        if not several:
            raise InputError(f"got nothing; allowed: {_allowed(name)}", key=(*place, name))
        out[name] = tuple(dict.fromkeys(_checked(name, value, (*place, name)) for value in several))
    return Pins(out)


def parse_pin(text: str) -> tuple[str, list[Value]]:
    """Parse `tensor=4,8` of the command line. Raises InputError."""
    name, equals, values = text.partition("=")
    if not equals or not name.strip() or not values.strip():
        raise InputError(f"--pin {text!r}: write dimension=value or dimension=value,value, e.g. tensor=4,8")
    return name.strip(), [value_in_words(value.strip()) for value in values.split(",")]


def _checked(name: str, value: Value, key: Key) -> Value:
    allowed = DIMENSIONS[name].allowed
    if allowed:
        good = any(type(value) is type(each) and value == each for each in allowed)
    else:
        good = isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= LARGEST
    if not good:
        is_word = isinstance(value, str) and isinstance(next(iter(allowed), None), str)
        hint = nearest(str(value), list(map(str, allowed))) if is_word else f"allowed: {_allowed(name)}"
        raise InputError(f"got {written(value)!r}; {hint}", key=key)
    return value


def _allowed(name: str) -> str:
    return ", ".join(map(written, DIMENSIONS[name].allowed)) or f"numbers from 1 to {LARGEST:,}"


def _error_of_codecs() -> dict[str, float]:
    weights, gradients = parse_codec(INT8).relative_error, parse_codec(INT4).relative_error
    return {"plain": 0.0, "weights": weights, "gradients": gradients, "both": max(weights, gradients)}


@dataclass(frozen=True, slots=True)
class LossyPolicy:
    """Lossy codecs that a search may use: all or none (`lossy`) or, with `max_error`, every codec and activation
    compression whose error relative to the largest value of its block is within that bound (0: only lossless ones).
    """

    lossy: bool = False
    max_error: float | None = None

    def codecs(self) -> tuple[str, ...]:
        """Return the codecs that are allowed on the data axes."""
        if self.max_error is None:
            return CODECS if self.lossy else CODECS[:1]
        return tuple(codec for codec, error in _error_of_codecs().items() if error <= self.max_error)

    def compressions(self, pins: Pins) -> tuple[str, ...]:
        """Return the compression policies to try for plans of Megatron-LM: the pinned ones or, with `max_error`, those
        of them (by default of all) within the bound."""
        if self.max_error is None:
            return tuple(map(str, pins.of("compression", COMPRESSIONS[:1])))
        return tuple(str(each) for each in pins.of("compression", COMPRESSIONS) if self.keeps(str(each)))

    def keeps(self, policy: str) -> bool:
        """Return whether a compression policy loses no more precision than is allowed."""
        error = compression_of(policy).relative_error
        return error == 0.0 or (self.lossy if self.max_error is None else error <= self.max_error)

    def refuse(self, pins: Pins) -> None:
        """Raise InputError for pinned values that lose more precision than is allowed."""
        allow = "allow it with --lossy (tune.lossy = true), or --max-error"
        errors: Mapping[str, float] = _error_of_codecs()
        for codec in pins.of("codec", ()):
            if codec not in self.codecs():
                raise InputError(f"tune.pin.codec: {codec!r} {self._loses(errors[str(codec)], allow)}")
        for policy in pins.of("compression", ()):
            if not self.keeps(str(policy)):
                error = compression_of(str(policy)).relative_error
                raise InputError(f"tune.pin.compression: {policy!r} {self._loses(error, allow)}")

    def _loses(self, error: float, allow: str) -> str:
        if self.max_error is None:
            return f"loses precision; {allow}"
        return f"may be off by {error:.2g} of the largest value; allowed: max_error = {self.max_error:g}"

    def __str__(self) -> str:
        if self.max_error is not None:
            return f"codecs with an error of up to {self.max_error:g} of the largest value in a block are allowed"
        return "lossy codecs are allowed" if self.lossy else "lossless plans only"
