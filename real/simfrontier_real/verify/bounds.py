"""Bounds on the difference between training by a schedule and the unsharded model: rounding, and the errors of codecs,
narrow types and old weights.

Encoding a tensor causes an error of `noise_of` the codec, relative to the tensor's norm, by the codec's definition; a
check before training verifies that the error is no larger (codec_check.py). Errors in transfers of different kinds are
independent, so their squares add up. Errors in a transfer that every layer has add up linearly over the layers (zfp
rounds to one side), and so do the errors of weights that are one step old:

    noise^2 = sum over the kinds of transfers of (number of layers with this transfer * noise of its codec)^2

Gradients are encoded once per hop. Weights that are published in a codec are used in every layer. A model with a 16-bit
type has the rounding error of this type at every activation. Weights that are one step old differ by one Adam step in
the direction of the gradients, in which gradients change fastest: the error is 4 times the size of the step relative to
the size of the weights, in every layer.

    gradients together     rounding + 2.5 noise, at most 0.9 (at 1 there need be no gradient)
    one tensor's gradient  rounding + 1.5 * 2.5 noise; relative to at least a tenth of the whole norm
    losses                 rounding + 0.3 * 2.5 noise
    change of weights      rounding + 3 * 2.5 noise (Adam gives small gradients as much weight as large ones), at
                           most 0.9; plus 3 * the error of the codec in which weights are published
    published weights      rounding only: the result of publishing a master is known, whatever the error of the codec
    published weights compared with masters, if encoded more than once in transit: 1.5 * the error of the codec (each
                           encoding alone has 1 * this error)
    length of a change     0.1 + 0.65 * 2.5 noise, plus 3 * the error of the publishing codec

Masters in 16 bits lose the part of each update below the spacing of neighbouring numbers, so that updates of about this
size depend on rounding: the bound only requires that there is an update (0.9).

Whatever is lost, the norm for clipping is the norm of the ranks' gradients, and Adam's update from these gradients is
exact up to rounding.

In some steps the gradients of the batch depend strongly on the weights, so that differences are several times larger
there. Therefore the bounds of gradients apply to at least half of all steps (of two steps: to both); in the worst step
the error may be 4 times as large, for all gradients together at most 0.9. float64, where nothing is lost, needs no such
allowance.

The factors are derived from correct runs (docs/real.md).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from simfrontier.core.codecs import Codec, Plain
from simfrontier.core.program import Collective, Compute, ExpandedProgram, Schedule, TensorRole
from simfrontier_real.train.reference import narrow_states
from simfrontier_real.train.states import Weights, model_dtype
from simfrontier_real.verify.codec_check import noise_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Tolerance:
    """Allowed relative difference, by the model's number type, for training without losses other than rounding; and the
    reason."""

    fp64: float
    fp32: float
    source: str

    def of(self, dtype: str) -> float:
        """Return the tolerance of a model with this number type; 16-bit models compute in fp32."""
        return self.fp64 if dtype == "fp64" else self.fp32


EXACT: Final = ("fp64", "fp32")
"""Types of models that lose nothing by themselves."""
TOLERANCES: Final = {
    "weights": Tolerance(fp64=1e-10, fp32=1e-5, source="of each tensor's largest number, after 20 steps; seen: 1e-13"),
    "losses": Tolerance(fp64=1e-10, fp32=1e-5, source="sums over ranks and micro-batches in another order"),
    "gradients": Tolerance(fp64=1e-9, fp32=5e-5, source="the same, and weights that differ by rounding"),
    "norm": Tolerance(fp64=1e-9, fp32=1e-5, source="over the gradients that the ranks have: one sum of squares"),
    "update": Tolerance(fp64=1e-9, fp32=1e-3, source="of a move: fp32 rounds a master of 1 by 6e-5 of a move of 1e-3"),
    "share": Tolerance(fp64=1e-6, fp32=1e-3, source="of the whole norm: tensors below count as that, else noise rules"),
}
GRADIENTS: Final = 2.5
OLD: Final = 4.0
ONE_TENSOR: Final = 1.5
PEAK: Final = 4.0  # error of the worst step relative to the median step
LOSSES: Final = 0.3
MOVES: Final = 3.0
MOST: Final = 0.9  # a bound of 1 would allow weights that do not change
PUBLISHED: Final = 3.0
BESIDE: Final = 1.5
LENGTHS: Final = 0.65
LEAST_LENGTH: Final = 0.1
SHARE: Final = 0.1  # fraction of the norm of all gradients, if something is lost

_STATES: Final[dict[TensorRole, str]] = {"master": "masters", "optimizer": "moments"}
_MOVED: Final = {"gathered": "weights", "copy": "weights", "weight": "published weights", "activation": "activations"}


@dataclass(frozen=True, slots=True, order=True)
class MoveNoise:
    """Communication that loses `noise` of the moved values, relative to their length, by encoding in `codec`: `kinds`
    kinds of transfers of weights, activations or gradients, each in `layers` layers."""

    of: str
    codec: str
    layers: int
    kinds: int
    noise: float

    @property
    def square(self) -> float:
        """Contribution of these transfers to the square of the noise."""
        return self.kinds * (self.layers * self.noise) ** 2

    def __str__(self) -> str:
        layers = f" in {self.layers} layers" if self.layers > 1 else ""
        return f"{self.kinds} × {self.of} in {self.codec}{layers} ({self.noise:.1e} each)"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBounds:
    """Bounds on the relative errors of training: `limits` by the names of checks. `share` is the least fraction of the
    norm of all gradients to which the error of one tensor's gradient is related; `published` is the relative loss of
    weights when they are published; `length` bounds the length of the change of weights. `is_exact`: nothing is lost
    but rounding, and weights are compared element by element. `text` names the transfers with losses."""

    is_exact: bool
    limits: Mapping[str, float]
    share: float
    length: float
    published: float
    text: str


def moves_of(schedule: Schedule, programs: tuple[ExpandedProgram, ...]) -> list[MoveNoise]:
    """Return the transfers of a schedule, in all its programs, that lose part of the moved values."""
    codings: dict[tuple[str, str, tuple[str, ...], str], tuple[Codec, int, int]] = {}
    for program in programs:
        decoded = _decoded(schedule, program)
        for op, writes in zip(program.ops, program.writes, strict=True):
            if isinstance(op, Compute) or op.codec.is_measured:
                continue
            axes = op.axes if isinstance(op, Collective) else (op.axis,)
            per_hop = isinstance(op, Collective) and op.per_hop
            for ref in writes:
                role = schedule.tensors[ref.name].role if per_hop else decoded.get(ref.name, "")
                if role in ("", "token"):
                    continue
                moved = _MOVED.get(role, "gradients")
                layers = 1 if moved == "gradients" or not isinstance(op, Collective) else _layers(schedule)
                kinds = 2 * (schedule.mesh.size(axes) - 1) if per_hop else 1
                codings[moved, op.name, axes, str(op.codec)] = (op.codec, layers, kinds)
    total: dict[tuple[str, Codec, int], int] = {}
    for (moved, *_), (codec, layers, kinds) in codings.items():
        total[moved, codec, layers] = total.get((moved, codec, layers), 0) + kinds
    moves = [
        MoveNoise(moved, str(codec), layers, kinds, noise_of(codec)) for (moved, codec, layers), kinds in total.items()
    ]
    return sorted(each for each in moves if each.noise > 0) + _roundings(schedule)


def _decoded(schedule: Schedule, program: ExpandedProgram) -> dict[str, str]:
    """Return for each encoded tensor the role of the tensor that is decoded from it."""
    out: dict[str, str] = {}
    for index, op in enumerate(program.ops):
        if isinstance(op, Compute) and op.kind in ("decode", "decode_sum"):
            targets = (*program.writes[index], *program.accumulates[index])
            for src, dst in zip(program.reads[index], targets, strict=False):  # a token may be written, too
                role = schedule.tensors[dst.name].role
                out[src.name] = role if role in _MOVED else "gradient"
    return out


def _roundings(schedule: Schedule) -> list[MoveNoise]:
    """Return the losses from rounding activations and published weights to the number type of a 16-bit model."""
    dtype = model_dtype(schedule)
    if dtype in EXACT:
        return []
    rounded = [tensor for tensor in schedule.tensors.values() if tensor.role == "activation" and tensor.dtype == dtype]
    by_layers = [_layers(schedule) if tensor.per_layer else 1 for tensor in rounded]
    noise = noise_of(Plain(dtype))
    moves = [MoveNoise("activations", dtype, each, by_layers.count(each), noise) for each in sorted(set(by_layers))]
    return [*moves, MoveNoise("published weights", dtype, _layers(schedule), 1, noise)]


def _layers(schedule: Schedule) -> int:
    return max(1, int(schedule.meta.get("num_layers", 1)))


def bounds_of(
    schedule: Schedule,
    programs: tuple[ExpandedProgram, ...],
    precision: str,
    is_exact: bool,
    start: Weights,
    learning_rate: float,
) -> TrainingBounds:
    """Return the bounds of a schedule; `start` are the weights before the first step, `precision` is the model's number
    type."""
    allowed = {name: each.of(precision) for name, each in TOLERANCES.items()}
    equal, rounding = allowed["weights"], allowed["gradients"]
    moves, narrow = ([], {}) if is_exact else (moves_of(schedule, programs), narrow_states(schedule))
    noise = math.sqrt(sum(each.square for each in moves))
    parts = [*map(str, moves), *(f"{_STATES[role]} in 16 bits" for role in sorted(narrow))]
    age = max((op.max_age for each in programs for op in each.ops if isinstance(op, Compute)), default=0)
    if age:
        old = OLD * age * _layers(schedule) * learning_rate / _root_mean_square(start)
        parts.append(f"weights that are {age} step old ({old:.1e})")
        noise += old
    published = ("published weights", *(("weights",) if schedule.codes_per_hop else ()))
    lost = [each for each in moves if each.of in published]
    # with per-hop coding each rank re-encodes what it received; else weights are encoded once, or twice in two hops
    once = max((each.noise for each in lost), default=0.0)
    again = math.sqrt(sum(each.kinds * each.noise**2 for each in lost))
    together, one_tensor = rounding + GRADIENTS * noise, rounding + ONE_TENSOR * GRADIENTS * noise
    peak = 1.0 if is_exact and precision == "fp64" else PEAK
    moved = MOST if "master" in narrow else min(MOST, rounding + MOVES * GRADIENTS * noise)
    limits = {
        "gradients": min(MOST, peak * together),
        "gradients of most steps": min(MOST, together),
        "gradient of one tensor": peak * one_tensor,
        "gradient of one tensor of most steps": one_tensor,
        # coding per hop makes copies differ; each rank counts its own
        "norm to clip by": allowed["norm"] + (GRADIENTS * noise if schedule.codes_per_hop else 0.0),
        "Adam's moves": allowed["update"],
        "losses": allowed["losses"] + LOSSES * GRADIENTS * noise,
        "weights": equal if is_exact else moved,
        "weights beside masters": equal + BESIDE * (again if schedule.codes_per_hop else once),
        "published weights": equal,
    }
    return TrainingBounds(
        is_exact=is_exact,
        limits=limits,
        share=allowed["share"] if is_exact else SHARE,
        length=LEAST_LENGTH + LENGTHS * (MOST if "master" in narrow else min(MOST, GRADIENTS * noise)),
        published=PUBLISHED * again,
        text=", ".join(parts),
    )


def _root_mean_square(weights: Weights) -> float:
    squares = sum(float((values * values).sum()) for values in weights.values())
    return math.sqrt(squares / sum(values.size for values in weights.values()))
