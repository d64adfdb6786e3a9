"""Compression of messages by parallel dimension: named policies, and their effect on a plan's moves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, get_args

from simfrontier.base.errors import InputError, meant, nearest, wrong
from simfrontier.core.codecs import Codec, Plain
from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.options import PLAIN, codec_of
from simfrontier.core.plan.plan import Purpose

Dimension = Literal["dp", "tp", "pp", "zero"]
DIMENSIONS: Final[tuple[Dimension, ...]] = get_args(Dimension)
"""dp: gradients; tp: values and their gradients, summed or gathered inside a layer; pp: the same between stages; zero:
weights and what the optimizer has made of them, gathered over the data axes."""
OF_PURPOSE: Final[Mapping[str, Dimension]] = {
    "gradient": "dp",
    "step_reduction": "dp",
    "weight_gather": "zero",
    "copy_gather": "zero",
    "publish": "zero",
    "activation": "tp",
    "input_gradient": "tp",
}

LOW_RATE, HIGH_RATE = "8", "16"
"""Bits per value where a policy has none: of the candidates 8, 16 and 24 the lowest, for what bears errors, and the
default of MVAPICH-Plus 4.0 (mvapich-docs.readthedocs.io). The authors' are not known."""
LEAST_BYTES: Final = 2**20  # MVAPICH-Plus 4.0's threshold for compressing a message (mvapich-docs.readthedocs.io)
POLICIES: Final[Mapping[str, tuple[str, str, tuple[str, ...]]]] = {
    "none": (PLAIN, PLAIN, ()),
    "naive-zfp": ("zfp:{0}", "zfp:{0}", (LOW_RATE,)),
    "naive-mpc": ("mpc", "mpc", ()),
    "MZHybrid": ("zfp:{0}", "mpc", (LOW_RATE,)),
    "ZHybrid": ("zfp:{0}", "zfp:{1}", (LOW_RATE, HIGH_RATE)),
}
"""Policies (arXiv 2409.02423): codecs of gradients and of everything else, and the rates that these have by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compression:
    """Compression of messages: a codec for each parallel dimension (None: messages are sent as stored), and how
    collectives apply the codec.

    Tensors of fewer than `least_bytes` bytes per rank are not compressed. With `widens`, uncompressed messages are sent
    in FP32 even if the tensor has 16-bit numbers. `per_hop` models a library that compresses every point-to-point
    message separately: a ring all-reduce decodes, adds and encodes again at every step, and an all-gather loses
    precision at every step. Without `per_hop`, each message is encoded only once per collective.
    """

    dp: Codec | None = None
    tp: Codec | None = None
    pp: Codec | None = None
    zero: Codec | None = None
    least_bytes: int = LEAST_BYTES
    per_hop: bool = False
    widens: bool = False

    @property
    def plain(self) -> Codec | None:
        """Codec of messages that are not compressed (FP32 with `widens`); None if these are sent as stored."""
        return Plain("fp32") if self.widens else None

    def codec(self, dimension: Dimension) -> Codec | None:
        """Return the codec for messages of a parallel dimension; None if these messages are not compressed."""
        codec: Codec | None = getattr(self, dimension)
        return codec

    def hop(self, hop: Hop, dimension: Dimension) -> Hop:
        """Return the hop with the codec that its parallel dimension prescribes."""
        codec = self.codec(dimension) or self.plain
        if codec is None:
            return hop
        if not codec.is_opaque:
            return replace(hop, codec=codec, below=self.plain)
        return replace(hop, codec=codec, least_bytes=self.least_bytes, per_hop=self.per_hop, below=self.plain)

    def hops(self, hops: Mapping[Purpose, tuple[Hop, ...]]) -> dict[Purpose, tuple[Hop, ...]]:
        """Return the routes of all moves of a plan, with each hop's codec set according to the hop's parallel
        dimension."""
        return {
            purpose: tuple(self.hop(hop, OF_PURPOSE[purpose]) for hop in legs) if purpose in OF_PURPOSE else legs
            for purpose, legs in hops.items()
        }

    @property
    def relative_error(self) -> float:
        """Largest error bound among the codecs, relative to the largest value of a block."""
        return max((codec.relative_error for codec in map(self.codec, DIMENSIONS) if codec), default=0.0)

    def __str__(self) -> str:
        return ", ".join(f"{dimension} {self.codec(dimension) or PLAIN}" for dimension in DIMENSIONS)


def parse_policy(text: str) -> dict[Dimension, Codec | None]:
    """Parse the name of a compression policy, with its rates after a colon: `naive-zfp:8`, `naive-mpc`, `MZHybrid:8`,
    `ZHybrid:8/16`, `none`. Raises InputError."""
    name, colon, rest = text.partition(":")
    if name not in POLICIES:
        raise InputError(f"compression {text!r}: {nearest(name, POLICIES)}, or a table of dp, tp, pp and zero")
    dp, others, defaults = POLICIES[name]
    rates = [rate.strip() for rate in rest.split("/")] if colon else defaults
    if len(rates) != len(defaults):
        example = f"{name}:{'/'.join(defaults)}" if defaults else name
        raise InputError(f"compression {text!r}: {name} takes {_rates(len(defaults))}, e.g. {example}")
    own, other = (codec_of(codec.format(*rates)) for codec in (dp, others))
    return {"dp": own, "tp": other, "pp": other, "zero": other}


def _rates(count: int) -> str:
    return {0: "no rate", 1: "one rate, that of ZFP", 2: "two rates, of gradients and of everything else"}[count]


def compression_of(
    text: str, least_bytes: int = LEAST_BYTES, per_hop: bool = False, widen: bool = False
) -> Compression:
    """Parse a policy name, or a list of codecs such as `dp=CODEC, tp=CODEC …`, in which messages of unnamed dimensions
    are sent as stored; with `widen`, uncompressed 16-bit numbers are sent as FP32. Raises InputError."""
    codecs = _listed(text) if "=" in text else parse_policy(text)
    if widen:
        codecs = {dimension: codec.widened() if codec else Plain("fp32") for dimension, codec in codecs.items()}
    return Compression(**codecs, least_bytes=least_bytes, per_hop=per_hop, widens=widen)


def _listed(text: str) -> dict[Dimension, Codec | None]:
    out: dict[Dimension, Codec | None] = dict.fromkeys(DIMENSIONS)
    named: set[str] = set()
    for part in text.split(","):
        key, _, codec = (each.strip() for each in part.partition("="))
        if key not in DIMENSIONS:
            raise InputError(f"compression {text!r}: {key!r}: {meant(key, DIMENSIONS)}")
        if key in named:
            raise InputError(f"compression {text!r}: {key} twice; allowed: every dimension once")
        named.add(key)
        out[key] = codec_of(codec)
    return out


def written(value: Any) -> str:
    """Return a scenario's compression value as text that `compression_of` parses. The value is a policy name or a table
    from dimensions to codecs, and is validated first. Raises InputError."""
    text = value
    if isinstance(value, Mapping):
        for key, codec in value.items():
            if not isinstance(codec, str):
                raise InputError(wrong(codec, f'a codec, such as "zfp:16", or "{PLAIN}"'), key=(str(key),))
        text = ", ".join(f"{key}={codec}" for key, codec in value.items()) or "none"
    if not isinstance(text, str):
        raise InputError(wrong(value, f"one of {', '.join(POLICIES)}, or a table of codecs"))
    compression_of(text)
    return text
