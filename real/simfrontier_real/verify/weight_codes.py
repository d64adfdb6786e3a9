"""What publishing should make of a rank's masters: the model's type, and the codec that they are sent in. Both are
functions of the master alone, so published weights are compared with them without the codec's loss; and so are the
codes of weights that are gathered."""

from __future__ import annotations

from typing import Any, Final

from simfrontier.core.program import Collective, Compute, Ref
from simfrontier_real.ops.codecs import Encoded, decode, encode
from simfrontier_real.ops.rank_context import RankContext
from simfrontier_real.train.states import weight_of

_MOVES: Final = ("encode", "decode", "slice", "permute", "cast")
Codings = tuple[tuple[Ref, Ref], ...]  # the codings of a weight, the last first: (what is coded, the code)


def published(context: RankContext) -> dict[tuple[str, int], Any]:
    """By name and layer of this rank's masters: the line that its share of the published weight should be, as a numpy
    array. Weights that are coded more than once are left out: what other ranks hold of them counts
    too."""
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
    """By what an op of the program writes last: the op's kind, and what it is made of."""
    program, out = context.program, {}
    for index, op in enumerate(program.ops):
        if isinstance(op, Collective) or (isinstance(op, Compute) and op.kind in _MOVES):
            pairs = zip(program.reads[index], program.writes[index], strict=False)  # a token may be written, too
            out.update({target: (op.kind, source) for source, target in pairs})
    return out


def _codings_of(context: RankContext, sources: dict[Ref, tuple[str, Ref]], weight: Ref) -> Codings:
    """From a weight back to what the optimizer wrote."""
    codings, at, seen = [], weight, set()
    while at in sources and at not in seen:
        seen.add(at)
        kind, source = sources[at]
        if kind == "encode":
            codings.append((source, at))
        at = source
    return tuple(codings)


class WeightCodes:
    """Holds the codes of weights, when they leave, against the weights that are there: both are of this rank, and the
    code is a function of the weight alone."""

    def __init__(self, context: RankContext) -> None:
        tensors = context.schedule.tensors
        sources = {code: plain for code, (kind, plain) in _sources(context).items() if kind == "encode"}
        self._context, self._errors = context, [0.0]
        self._plain = {code: plain for code, plain in sources.items() if tensors[plain.name].role == "weight"}

    def record_sent(self, index: int) -> None:
        """Compare the codes that a call is about to send with the weights."""
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
        """The largest difference between the codes sent in the step that has just run and those of the weights; 0 where
        they are right. Starts anew."""
        errors, self._errors = [float(each) for each in self._errors], [0.0]
        return float("inf") if any(each != each for each in errors) else max(errors)
