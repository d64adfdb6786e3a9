"""Extrapolation of programs: the calls of many layers and micro-batches, derived from a program built for few."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from simfrontier.core.plan.program import Compressor, Place
from simfrontier.core.program import Call, Collective, Compute, Op, Ref, Tensor
from simfrontier.core.workload import Phase

Calls = tuple[Call, ...]
Built = tuple[Calls, Mapping[str, Tensor]]
Build = Callable[[int], Built]
Axis = Literal["layer", "micro"]

FEW = 4  # the first, the last, and two between them


def repeated(build: Build, num_micro: int, hooks_back: int) -> Built:
    """Return the calls and tensors of `num_micro` micro-batches. If the micro-batches of a build with fewer of them
    repeat, the result is extended from that build. A hook may wait for the fetches issued `hooks_back` hooks before
    it."""
    few = FEW
    while few < num_micro:
        calls, tensors = build(few)
        middle = _middle(calls, tensors, few // 2 - 1)
        if middle is not None and hooks_wait(calls, middle.start, hooks_back):
            return _with_more(calls, middle, num_micro - few), tensors
        few *= 2
    return build(num_micro)


def _middle(calls: Calls, tensors: Mapping[str, Tensor], micro: int) -> range | None:
    """Return the indices of the calls of micro-batch `micro` if the calls of the next micro-batch are equal; None
    otherwise."""
    first: dict[int, int] = {}
    for index, call in enumerate(calls):
        first.setdefault(call.micro, index)
    if not {micro, micro + 1, micro + 2} <= first.keys():
        return None
    own, after = range(first[micro], first[micro + 1]), range(first[micro + 1], first[micro + 2])
    if {calls[at].micro for at in own} != {micro} or {calls[at].micro for at in after} != {micro + 1}:
        return None
    forms = [[(calls[at].label, calls[at].layer, calls[at].block) for at in each] for each in (own, after)]
    if forms[0] != forms[1] or not is_whole(calls, tensors, set(own), "micro", range(micro, micro + 1)):
        return None
    at_end = [call for call in calls[own.stop :] if call.micro < micro]
    return None if any(ref.micro for call in at_end for ref in of_axis(call.ops, tensors, "micro")) else own


def _with_more(calls: Calls, middle: range, more: int) -> Calls:
    micro = calls[middle.start].micro
    own = calls[middle.start : middle.stop]
    out = list(calls[: middle.stop])
    for further in range(1, more + 1):
        out += [Call(call.label, call.layer, call.micro + further, call.ops, call.block) for call in own]
    for call in calls[middle.stop :]:
        later = call.micro + more if call.micro > micro else call.micro
        out.append(Call(call.label, call.layer, later, call.ops, call.block))
    return tuple(out)


def is_whole(
    calls: Calls,
    tensors: Mapping[str, Tensor],
    own: set[int],
    axis: Axis,
    places: range,
    of_all: frozenset[int] = frozenset(),
) -> bool:
    """Return whether the calls with indices `own` make exactly the changes that fall to the layers or micro-batches
    `places`: as many changes of every tensor, without those by the calls in `of_all`."""
    by_calls: Counter[str] = Counter()
    of_places: Counter[str] = Counter()
    for index, call in enumerate(calls):
        here: int = getattr(call, axis)
        for ref in of_axis(call.ops, tensors, axis, changed=True):
            if index not in of_all:
                by_calls[ref.name] += index in own
                of_places[ref.name] += here + getattr(ref, axis) in places
    return by_calls == of_places


def hooks_wait(calls: Calls, begin: int, hooks_back: int) -> bool:
    """Return whether every hook from call `begin` on waits for an earlier hook, because at least `hooks_back` hooks
    precede it; also true if the calls contain no hook at all."""
    of_block = {call.block: sum(isinstance(op, Compute) and op.kind == "hook" for op in call.ops) for call in calls}
    before = sum(of_block[call.block] for call in calls[:begin])
    return before >= hooks_back or not any(of_block.values())


def of_axis(ops: Sequence[Op], tensors: Mapping[str, Tensor], axis: Axis, changed: bool = False) -> Iterator[Ref]:
    """Yield the references of ops to tensors that have one instance per layer, or per micro-batch (`axis`); with
    `changed`, only references that the ops write or accumulate into."""
    for op in ops:
        for ref in (*(() if changed else op.reads), *op.writes, *op.accumulates):
            if getattr(tensors[ref.name], f"per_{axis}"):
                yield ref


END_LAYERS = 8  # those that differ at either end
PERIODS = (1, 2, 3)  # after how many periods of the kinds of layers buckets are full at the same weight again
APART = (END_LAYERS + 2 * PERIODS[-1]) // 2  # layers between the middle of the fewest built and their end
LARGEST_SHARE = 0.4  # of the layers: more are not worth a trial


class _Irregular(Exception):
    """Error: the middle layers of a build do not repeat, so the build cannot be extended."""


def repeated_layers(
    build: Callable[[tuple[Phase, ...], Compressor], Built],
    layers: tuple[Phase, ...],
    bucket_elements: int,
    hooks_back: int,
) -> Built:
    """Return the calls and tensors of the layers. If the layers of a build with fewer of them repeat, the result is
    extended from that build. `bucket_elements` is the largest number of elements that moves of several layers send in
    one call; a hook may wait for the fetches issued `hooks_back` hooks before it."""
    run, kinds = _repeating(layers)
    step = PERIODS[1] * PERIODS[2] * kinds
    few = END_LAYERS + step + (len(run) - END_LAYERS - step) % step
    more = len(run) - few
    if len(layers) - more <= LARGEST_SHARE * len(layers):
        compressor = Compressor()
        calls, tensors = build((*layers[: run.start + few], *layers[run.stop :]), compressor)
        for period in [kinds * count for count in PERIODS]:
            begin = run.start + (few - 2 * period) // 2 + 1
            middle = range(begin, begin + period)
            extended = _MoreLayers(tensors, middle, more, bucket_elements, hooks_back, compressor)
            try:
                return extended.calls(calls), tensors
            except _Irregular:
                continue
    return build(layers, Compressor())


def _repeating(layers: tuple[Phase, ...]) -> tuple[range, int]:
    """Return the longest run of layers in which each is of the kind of the layer one period before, and this period, a
    number of layers, short enough that few layers have all periods."""
    runs, number_of = [], {kind: number for number, kind in enumerate(dict.fromkeys(layers))}
    kinds = [number_of[layer] for layer in layers]
    most = int(LARGEST_SHARE * len(layers)) // (PERIODS[1] * PERIODS[2])
    for period in range(1, max(1, most) + 1):
        begin = 0
        for end in range(period, len(layers) + 1):
            if end == len(layers) or kinds[end] != kinds[end - period]:
                runs.append((end - begin, -period, begin))
                begin = end - period + 1
    length, period, begin = max(runs)
    return range(begin, begin + length), -period


@dataclass(frozen=True, slots=True)
class _MoreLayers:
    """Extension of calls by `more` layers, made by repeating the middle `layers`."""

    tensors: Mapping[str, Tensor]
    layers: range
    more: int
    bucket_elements: int
    hooks_back: int
    compressor: Compressor

    def calls(self, calls: Calls) -> Calls:
        """Return the calls extended by the additional layers. Raises _Irregular."""
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
        """Return the calls of a run of ascending or descending layers, extended by the additional layers."""
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
        """Return a call outside of runs, whose operands may belong to several layers, with the operands of the
        additional layers added."""
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
        return self.compressor.call(Place(call.label, layer, call.micro), ops)

    def _shifted(self, ref: Ref, layers: int) -> Ref:
        return Ref(ref.name, ref.layer + layers, ref.micro) if self.tensors[ref.name].per_layer else ref

    def _with_more(self, refs: list[Ref]) -> list[Ref]:
        """Return the operands of an op with those of the additional layers added, where the operands ascend layer by
        layer."""
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
    """Yield the runs of consecutive calls that have one label and one micro-batch, and whose layers ascend or descend
    by one."""
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
