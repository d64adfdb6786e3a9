"""Layers that repeat: the calls of many out of the calls of few, where those in the middle are alike.

What a pass decides for one layer depends on what it decided for the one before. Where layers in the middle have the
same calls as their neighbours, which make as much as they need, so have all that would stand between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from simfrontier.core.plan.compress import Compressor
from simfrontier.core.plan.repeat import Built, Calls, hooks_wait, is_whole
from simfrontier.core.program import Call, Collective, Compute, Op, Ref, Tensor

FEW_LAYERS = 14  # those that differ at either end, and two periods
PERIODS = (1, 2, 3)  # layers after which buckets are full at the same weight again
LARGEST_SHARE = 0.4  # of the layers: more are not worth a trial


class _Irregular(Exception):
    """Layers in the middle are not like their neighbours."""


def repeated_layers(
    build: Callable[[int, Compressor], Built], num_layers: int, bucket_elements: int, hooks_back: int
) -> Built:
    """The calls and tensors that `build` makes of so many layers, built of fewer where they repeat; `bucket_elements`:
    the most that moves of several layers send at once; a hook may wait for the fetches of the one `hooks_back` hooks
    before it."""
    step = PERIODS[1] * PERIODS[2]
    few = FEW_LAYERS + (num_layers - FEW_LAYERS) % step
    if few <= LARGEST_SHARE * num_layers:
        compressor = Compressor()
        calls, tensors = build(few, compressor)
        for period in PERIODS:
            begin = (few - 2 * period) // 2 + 1
            layers = range(begin, begin + period)
            more = _MoreLayers(tensors, layers, num_layers - few, bucket_elements, hooks_back, compressor)
            try:
                return more.calls(calls), tensors
            except _Irregular:
                continue
    return build(num_layers, Compressor())


@dataclass(frozen=True, slots=True)
class _MoreLayers:
    """Repeats some `layers`, so that there are so many `more`."""

    tensors: Mapping[str, Tensor]
    layers: range
    more: int
    bucket_elements: int
    hooks_back: int
    compressor: Compressor

    def calls(self, calls: Calls) -> Calls:
        """The calls with more layers. Raises _Irregular."""
        out: list[Call] = []
        own: set[int] = set()
        by_themselves: set[int] = set()
        for run in _runs(calls):
            at = {calls[index].layer: index for index in run}
            if not {*self.layers, self.layers.stop + len(self.layers) - 1} <= at.keys():
                by_themselves |= {*run}
                out += [self._by_itself(call) for call in calls[run.start : run.stop]]
                continue
            if not own and not hooks_wait(calls, min(at[layer] for layer in self.layers), self.hooks_back):
                raise _Irregular
            own |= {at[layer] for layer in self.layers}
            out += self._run(list(calls[run.start : run.stop]))
        if not is_whole(calls, self.tensors, own, "layer", self.layers, frozenset(by_themselves)):
            raise _Irregular
        return tuple(out)

    def _run(self, run: list[Call]) -> list[Call]:
        """Calls that go from layer to layer."""
        by_layer = {call.layer: call for call in run}
        first, period = self.layers.start, len(self.layers)
        if any(by_layer[layer].block != by_layer[layer + period].block for layer in self.layers):
            raise _Irregular
        further = [
            _at_layer(by_layer[first + (layer - first) % period], layer)
            for layer in range(self.layers.stop, self.layers.stop + self.more)
        ]
        below = [call for call in run if call.layer < self.layers.stop]
        above = [_at_layer(call, call.layer + self.more) for call in run if call.layer >= self.layers.stop]
        return [*below, *further, *above] if run[0] in below else [*above, *reversed(further), *below]

    def _by_itself(self, call: Call) -> Call:
        """A call of one layer, or of none, that may be about others."""
        if call.layer in self.layers:
            raise _Irregular
        layer = call.layer + self.more * (call.layer >= self.layers.stop)

        def moved(refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
            absolute = [self._shifted(ref, call.layer) for ref in refs]
            return tuple([self._shifted(ref, -layer) for ref in self._with_more(absolute)])

        ops: list[Op] = []
        for op in call.ops:
            if isinstance(op, Compute):
                reads, writes, accumulates = moved(op.reads), moved(op.writes), moved(op.accumulates)
                ops.append(replace(op, reads=reads, writes=writes, accumulates=accumulates))
            else:
                assert isinstance(op, Collective), "only stages exchange"
                token = None if op.token is None else moved((op.token,))[0]
                ops.append(replace(op, src=moved(op.src), dst=moved(op.dst), token=token))
        return self.compressor.call(call.label, layer, call.micro, ops)

    def _shifted(self, ref: Ref, layers: int) -> Ref:
        return Ref(ref.name, ref.layer + layers, ref.micro) if self.tensors[ref.name].per_layer else ref

    def _with_more(self, refs: list[Ref]) -> list[Ref]:
        """Operands of an op with those of more layers, where they go up layer by layer."""
        first, stop, period = self.layers.start, self.layers.stop, len(self.layers)
        of_layers = [self.tensors[ref.name].per_layer for ref in refs]
        middle = [i for i, ref in enumerate(refs) if of_layers[i] and first <= ref.layer < stop]
        upper = [
            self._shifted(ref, self.more) if of_layers[i] and ref.layer >= stop else ref for i, ref in enumerate(refs)
        ]
        if not middle:
            return upper
        begin, end = middle[0], middle[-1] + 1
        own = refs[begin:end]
        goes_up = [self._shifted(ref, period) for ref in own] == refs[end : end + len(own)]
        if end - begin != len(middle) or not goes_up or any(self.tensors[ref.name].pool for ref in own):
            raise _Irregular
        further = [self._shifted(ref, layers) for layers in range(period, self.more + 1, period) for ref in own]
        out = [*upper[:end], *further, *upper[end:]]
        if sum(self.tensors[ref.name].num_elements for ref in out) > self.bucket_elements:
            raise _Irregular
        return out


def _at_layer(call: Call, layer: int) -> Call:
    return Call(call.label, layer, call.micro, call.ops, call.block)


def _runs(calls: Calls) -> Iterator[range]:
    """Stretches of calls with one label and micro-batch that go up or down layer by layer."""
    begin = 0
    for index in range(1, len(calls) + 1):
        if index < len(calls):
            last, call = calls[index - 1], calls[index]
            goes_on = (call.label, call.micro) == (last.label, last.micro) and abs(call.layer - last.layer) == 1
            turns = index - begin > 1 and call.layer == calls[index - 2].layer
            if goes_on and not turns:
                continue
        yield range(begin, index)
        begin = index
