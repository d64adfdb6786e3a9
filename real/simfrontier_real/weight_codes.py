"""What publishing should make of a rank's masters: the model's type, and the codec that they are sent in. Both are
functions of the master alone, so published weights are held against them without the codec's loss; and so are the codes
of weights that are gathered."""

from __future__ import annotations

from typing import Any, Final

from simfrontier.schedule import Collective, Compute, Ref
from simfrontier_real.codecs import Encoded, decode, encode
from simfrontier_real.layout import rearranged
from simfrontier_real.rank_context import RankContext
from simfrontier_real.states import weight_of

_MOVES: Final = ("encode", "decode", "slice", "permute", "cast")
Way = tuple[tuple[Ref, Ref], ...]  # each coding on the way of a weight, the last first: (what is coded, the code)


def published(site: RankContext) -> dict[tuple[str, int], Any]:
    """By name and layer of this rank's masters: the line that its share of the published weight should be, as a numpy
    array. Weights that are coded more than once on their way are left out: what other ranks hold of them counts
    too."""
    if site.schedule.codes_per_hop:
        return {}
    sources = _sources(site)
    out = {}
    for ref, master in site.buffers.held.items():
        if site.schedule.tensors[ref.name].role != "master":
            continue
        weight = Ref(weight_of(site.schedule.tensors[ref.name]), ref.layer)
        way = _way(site, sources, weight)
        if len(way) < 2:
            out[ref.name, ref.layer] = site.backend.numpy(_image(site, weight, master, way))
    return out


def _image(site: RankContext, weight: Ref, master: Any, way: Way) -> Any:
    tensors, backend, mesh, layouts = site.schedule.tensors, site.backend, site.schedule.mesh, site.layouts
    dtype = tensors[weight.name].dtype
    line = backend.cast(master, dtype)
    for plain, coded in way:
        codec = tensors[coded.name].codec
        assert codec is not None, f"{coded.name} is not encoded"
        order, sent = layouts.order_of(plain), layouts.order_of(coded)
        there = rearranged(backend, line, mesh, order, sent, site.at)
        pieces = backend.xp.reshape(there, (layouts.pieces_of(coded), -1))
        back = decode(backend, encode(backend, pieces, codec), codec, int(pieces.shape[1]), dtype)
        line = rearranged(backend, backend.xp.reshape(back, (-1,)), mesh, sent, order, site.at)
    return line


def _sources(site: RankContext) -> dict[Ref, tuple[str, Ref]]:
    """By what an op of the program writes last: the op's kind, and what it is made of."""
    program, out = site.program, {}
    for index, op in enumerate(program.ops):
        if isinstance(op, Collective) or (isinstance(op, Compute) and op.kind in _MOVES):
            pairs = zip(program.reads[index], program.writes[index], strict=False)  # a token may be written, too
            out.update({target: (op.kind, source) for source, target in pairs})
    return out


def _way(site: RankContext, sources: dict[Ref, tuple[str, Ref]], weight: Ref) -> Way:
    """From a weight back to what the optimizer wrote."""
    results, at, seen = [], weight, set()
    while at in sources and at not in seen:
        seen.add(at)
        kind, source = sources[at]
        if kind == "encode":
            results.append((source, at))
        at = source
    return tuple(results)


class WeightCodes:
    """Holds the codes of weights, when they leave, against the weights that are there: both are of this rank, and the
    code is a function of the weight alone."""

    def __init__(self, site: RankContext) -> None:
        tensors = site.schedule.tensors
        sources = {code: plain for code, (kind, plain) in _sources(site).items() if kind == "encode"}
        self._site, self._apart = site, [0.0]
        self._plain = {code: plain for code, plain in sources.items() if tensors[plain.name].role == "weight"}

    def leaves(self, index: int) -> None:
        """A call is about to send what it reads."""
        for ref in self._site.program.reads[index]:
            if ref not in self._plain:
                continue
            site, plain = self._site, self._plain[ref]
            if plain not in site.buffers.held or not isinstance(held := site.buffers[ref], Encoded):
                continue
            layouts, mesh = site.layouts, site.schedule.mesh
            line = rearranged(
                site.backend, site.buffers[plain], mesh, layouts.order_of(plain), layouts.order_of(ref), site.at
            )
            codec = site.schedule.tensors[ref.name].codec
            assert codec is not None, f"{ref.name} is not encoded"
            again = encode(site.backend, site.backend.xp.reshape(line, (layouts.pieces_of(ref), -1)), codec)
            for one, other in zip(held.parts, again.parts, strict=True):
                far = site.backend.cast(one, "fp64") - site.backend.cast(other, "fp64")
                self._apart.append(site.backend.xp.max(site.backend.xp.abs(far)))

    def taken(self) -> float:
        """How far codes of the step that has just run are from those of the weights: 0 where all is well."""
        apart, self._apart = [float(each) for each in self._apart], [0.0]
        return float("inf") if any(each != each for each in apart) else max(apart)
