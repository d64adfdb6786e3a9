"""What plans may lose of what they send: codecs and policies of compression that a search may choose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from simfrontier.answers.search.pins import Pins
from simfrontier.answers.search.states import CODECS, COMPRESSIONS, INT4, INT8
from simfrontier.base.errors import InputError
from simfrontier.core.codecs import parse_codec
from simfrontier.core.plan import compression_of


def _error_of_codecs() -> dict[str, float]:
    weights, gradients = parse_codec(INT8).relative_error, parse_codec(INT4).relative_error
    return {"plain": 0.0, "weights": weights, "gradients": gradients, "both": max(weights, gradients)}


@dataclass(frozen=True, slots=True)
class LossyPolicy:
    """Whether lossy codecs are allowed (`lossy`); with `max_error`, all that a codec's bound
    keeps within so much of the largest value that it codes together with others, compressed activations too (0: what
    loses nothing)."""

    lossy: bool = False
    max_error: float | None = None

    def codecs(self) -> tuple[str, ...]:
        """What may be sent in fewer bits on the data axes."""
        if self.max_error is None:
            return CODECS if self.lossy else CODECS[:1]
        return tuple(codec for codec, error in _error_of_codecs().items() if error <= self.max_error)

    def compressions(self, pins: Pins) -> tuple[str, ...]:
        """Policies for plans of Megatron-LM: those that are asked for, or else, under a bound, all within it."""
        if self.max_error is None:
            return tuple(map(str, pins.of("compression", COMPRESSIONS[:1])))
        return tuple(str(each) for each in pins.of("compression", COMPRESSIONS) if self.keeps(str(each)))

    def keeps(self, policy: str) -> bool:
        """Whether a policy loses no more than is allowed."""
        error = compression_of(policy).relative_error
        return error == 0.0 or (self.lossy if self.max_error is None else error <= self.max_error)

    def refuse(self, pins: Pins) -> None:
        """Raise InputError for pins that lose more than is allowed."""
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
