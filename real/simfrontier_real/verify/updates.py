"""Expected updates of Adam, or of LAMB with its scales, from the gradients that a rank received in every step: computed
independently, in float64. Those of Muon are not checked: weights are, against the unsharded model's."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from simfrontier.core.dtypes import num_moments
from simfrontier.core.program import Collective, Compute, Ref
from simfrontier_real.ops.arrays import Array
from simfrontier_real.ops.codecs import Encoded, decode, encode
from simfrontier_real.ops.programs import RankContext
from simfrontier_real.train.states import weight_of
from simfrontier_real.train.training_settings import Adam
from simfrontier_real.verify.gradients import Key, RelativeError, largest, title

SIGNIFICANT: Final = {"fp16": 11, "bf16": 8}  # binary digits of a number
STEP: Final = 2.0**-7  # largest relative spacing of bf16 numbers
TIES: Final = 1e-3  # fraction of half a spacing: ties may round either way


@dataclass
class _ExpectedState:
    """Expected state of a weight: `ref` is the master weight, `moments` are its two Adam moments."""

    ref: Ref
    moments: Ref
    master: Any
    first: Any
    second: Any


class UpdateCheck:
    """Tracks a rank's shards of the master weights, and checks the optimizer's updates from the received gradients,
    whatever codecs have lost of these. The gradients themselves are compared with the unsharded ones elsewhere."""

    def __init__(self, context: RankContext, adam: Adam, step: int = 0) -> None:
        self._context, self._adam, self._step = context, adam, step  # of steps that were not skipped
        self._expected: dict[Key, _ExpectedState] = {}
        for ref, values in context.buffers.by_ref.items():
            if context.schedule.tensors[ref.name].role == "master":
                weight = weight_of(context.schedule.tensors[ref.name])
                moments = Ref(self._moments_of(weight), ref.layer)
                if num_moments(context.schedule.tensors[moments.name].dtype) == 1:
                    continue  # Muon's, which no part of a matrix determines
                first, second = context.backend.numpy(context.buffers[moments]).astype("float64")
                self._expected[weight, ref.layer] = _ExpectedState(ref, moments, self._line(values), first, second)

    def error_of(
        self, gradients: Mapping[Key, Array], norm: float | None, was_skipped: bool, scales: Mapping[Key, float]
    ) -> RelativeError:
        """Return the largest distance of a master weight from the optimizer's expected result in the step that has just
        run, beyond the rounding of a 16-bit master, relative to the length of the expected update. `norm` is the norm
        of all gradients (None: each gradient is clipped by its own), `scales` are LAMB's (empty for Adam)."""
        adam, errors = self._adam, []
        self._step += not was_skipped
        for key, expected in self._expected.items():
            master = self._line(self._context.buffers[expected.ref])
            move = np.zeros_like(master)
            if not was_skipped and key in gradients:
                gradient = self._line(gradients[key])
                length = math.sqrt(float(gradient @ gradient)) if norm is None else norm
                gradient = gradient * (min(1.0, adam.clip / length) if 0 < length < math.inf else 1.0)
                expected.first = adam.beta1 * expected.first + (1 - adam.beta1) * gradient
                expected.second = adam.beta2 * expected.second + (1 - adam.beta2) * gradient**2
                spread = np.sqrt(expected.second / (1 - adam.beta2**self._step)) + adam.epsilon
                move = -adam.learning_rate * expected.first / (1 - adam.beta1**self._step) / spread
                move = scales.get(key, 1.0) * move
                expected.first, expected.second = self._kept(expected)
            lacks = not was_skipped and key not in gradients
            aim = expected.master + move
            beyond = np.maximum(np.abs(master - aim) - self._rounding(aim, expected), 0.0)
            far = float(np.linalg.norm(beyond))
            # a tensor without a gradient does not move; it is measured against moves of a learning rate
            length = float(np.linalg.norm(move)) or adam.learning_rate * math.sqrt(master.size)
            error = math.inf if lacks or not math.isfinite(far) else far / length
            errors.append(RelativeError(error, title(key)))
            expected.master = master
        return largest(errors)

    def _moments_of(self, weight: str) -> str:
        """Return the tensor of a weight's moments."""
        tensors = self._context.schedule.tensors.values()
        return next(each.name for each in tensors if each.role == "optimizer" and each.weight == weight)

    def _kept(self, expected: _ExpectedState) -> tuple[Any, Any]:
        """Return the expected moments in their stored type: 16-bit moments are taken from the rank if they agree up to
        rounding."""
        own = expected.first, expected.second
        if self._context.schedule.tensors[expected.moments.name].dtype != "moments_bf16":
            return own
        held = self._context.backend.numpy(self._context.buffers[expected.moments]).astype("float64")
        first, second = (
            np.where(np.abs(theirs - mine) <= STEP * np.abs(mine), theirs, mine)
            for theirs, mine in zip(held, own, strict=True)
        )
        return first, second

    def _rounding(self, aim: Any, expected: _ExpectedState) -> Any:
        """Return half the spacing of the numbers in the master's type; 0 for types wider than 16 bits."""
        digits = SIGNIFICANT.get(self._context.schedule.tensors[expected.ref.name].dtype)
        if digits is None:
            return 0.0
        _, exponent = np.frexp(aim)
        return (1 + TIES) * np.ldexp(0.5, exponent - digits)

    def _line(self, values: Array) -> Any:
        return self._context.backend.numpy(values).astype("float64").reshape(-1)


_MOVES: Final = ("encode", "decode", "slice", "permute", "cast")
Codings = tuple[tuple[Ref, Ref], ...]  # encodings of a weight, last first: (source, encoded)


def published(context: RankContext) -> dict[tuple[str, int], Any]:
    """Return, by name and layer of this rank's masters, the expected flat buffer of its shard of the published weight,
    as a numpy array. Weights that are encoded more than once are left out: they also depend on values on other
    ranks."""
    if context.schedule.codes_per_hop:
        return {}
    sources = _sources(context)
    out = {}
    for ref, master in context.buffers.by_ref.items():
        if context.schedule.tensors[ref.name].role != "master":
            continue
        weight = Ref(weight_of(context.schedule.tensors[ref.name]), ref.layer)
        codings = _codings_of(context, sources, weight)
        if len(codings) < 2:
            out[ref.name, ref.layer] = context.backend.numpy(_image(context, weight, master, codings))
    return out


def _image(context: RankContext, weight: Ref, master: Any, codings: Codings) -> Any:
    backend, dtype = context.backend, context.schedule.tensors[weight.name].dtype
    line = backend.cast(master, dtype)
    for plain, coded in codings:
        codec, there = context.codec_of(coded), context.arranged(line, plain, coded)
        pieces = backend.xp.reshape(there, (context.layouts.pieces_of(coded), -1))
        back = decode(backend, encode(backend, pieces, codec), codec, int(pieces.shape[1]), dtype)
        line = context.arranged(backend.xp.reshape(back, (-1,)), coded, plain)
    return line


def _sources(context: RankContext) -> dict[Ref, tuple[str, Ref]]:
    """Return for every tensor instance that a local move or a collective writes last: the kind of the op, and the
    instance that it reads."""
    program, out = context.program, {}
    for index, op in enumerate(program.ops):
        if isinstance(op, Collective) or (isinstance(op, Compute) and op.kind in _MOVES):
            pairs = zip(program.reads[index], program.writes[index], strict=False)  # a token may be written, too
            out.update({target: (op.kind, source) for source, target in pairs})
    return out


def _codings_of(context: RankContext, sources: dict[Ref, tuple[str, Ref]], weight: Ref) -> Codings:
    """Return the encodings between the optimizer's output and a weight, from the weight backwards."""
    codings, at, seen = [], weight, set()
    while at in sources and at not in seen:
        seen.add(at)
        kind, source = sources[at]
        if kind == "encode":
            codings.append((source, at))
        at = source
    return tuple(codings)


class WeightCodes:
    """Compares the encoded weights that this rank sends with its actual weights: the encoding is a function of the
    weight alone."""

    def __init__(self, context: RankContext) -> None:
        tensors = context.schedule.tensors
        sources = {code: plain for code, (kind, plain) in _sources(context).items() if kind == "encode"}
        self._context, self._errors = context, [0.0]
        self._plain = {code: plain for code, plain in sources.items() if tensors[plain.name].role == "weight"}

    def record_sent(self, index: int) -> None:
        """Compare the encoded weights that a collective or exchange is about to send with the actual weights."""
        for ref in self._context.program.reads[index]:
            if ref not in self._plain:
                continue
            context, plain = self._context, self._plain[ref]
            if plain not in context.buffers.by_ref or not isinstance(held := context.buffers[ref], Encoded):
                continue
            line = context.arranged(context.buffers[plain], plain, ref)
            pieces = context.backend.xp.reshape(line, (context.layouts.pieces_of(ref), -1))
            again = encode(context.backend, pieces, context.codec_of(ref))
            for one, other in zip(held.parts, again.parts, strict=True):
                far = context.backend.cast(one, "fp64") - context.backend.cast(other, "fp64")
                self._errors.append(context.backend.xp.max(context.backend.xp.abs(far)))

    def take_error(self) -> float:
        """Return the largest difference between the encoded weights sent in the step that has just run and the encoding
        of the actual weights (0: correct), and reset it."""
        errors, self._errors = [float(each) for each in self._errors], [0.0]
        return float("inf") if any(each != each for each in errors) else max(errors)
