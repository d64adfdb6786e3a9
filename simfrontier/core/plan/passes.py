"""Passes on programs: reuse of gathered weights, prefetching, bucketing of reductions, and limits on outstanding
fetches.

Each pass is a pure function Program → Program. The rules are those of DeepSpeed 0.16.5 (runtime/zero:
parameter_offload.py, partitioned_param_coordinator.py, stage3.py).
"""

from __future__ import annotations

import math
from collections import defaultdict, deque
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import TypeGuard

from simfrontier.core.plan.moves import Hop
from simfrontier.core.plan.overlap import (
    inputs_first,
    overlap,
    statistics_beside,
    synchronise_experts,
    synchronise_layers,
    weights_first,
)
from simfrontier.core.plan.plan import Engine, Plan, Purpose
from simfrontier.core.plan.program import Hook, Item, Move, Place, Placed, Program, StreamWait, token_tensor
from simfrontier.core.program import Compute, Ref, gathered_name

GATHERS: tuple[Purpose, ...] = ("weight_gather", "copy_gather")
OVERLAPPED: tuple[Purpose, ...] = (*GATHERS, "publish", "gradient", "step_reduction", "scalar")  # unless a plan says


def is_gather(item: Item) -> TypeGuard[Move]:
    return isinstance(item, Move) and item.purpose in GATHERS


def reuse(program: Program, max_elements: int) -> Program:
    """Keep a gathered weight in memory if it is used again within `max_elements` elements of the trace, instead of
    gathering it again.

    A weight gathered from the second copy may be one step old, so it is reused only where the pass would also gather
    from the second copy.
    """
    items = program.items
    source = {item.dst[0]: item.src[0] for _, item in items if is_gather(item)}
    travelled = 0
    left: dict[Ref, tuple[int, Ref]] = {}  # home of the weight → (elements travelled when it was left, its buffer)
    renamed: dict[Ref, Ref] = {}
    for _, item in items:
        if not isinstance(item, Hook):
            continue
        for ref in item.weights:
            home = Ref(program.tensors[ref.name].weight or ref.name, ref.layer)
            last, kept = left.get(home, (0, None))
            near = travelled - last < max_elements
            if kept is not None and near and kept.micro == ref.micro and source[kept] in (home, source[ref]):
                renamed[ref] = kept
            left[home] = (travelled + item.elements, renamed.get(ref, ref))
        travelled += item.elements
    return _renamed(program, items, renamed)


def prefetch(program: Program, engine: Engine) -> Program:
    """Issue gathers at earlier hooks: each hook fetches the missing weights of its own module, and then up to
    `prefetch_elements` elements of the modules that follow, as long as at most `live_elements` gathered elements are in
    memory. A second copy that has not been written yet is not fetched before it is written."""
    items = program.items
    queue = deque(item for _, item in items if is_gather(item))
    written_at, left_at = _sources_written(items), _last_uses(items)
    held: dict[Ref, int] = {}
    out: Placed = []
    for index, (place, item) in enumerate(items):
        if is_gather(item):
            continue
        out.append((place, item))
        if not isinstance(item, Hook):
            continue
        held = {ref: elements for ref, elements in held.items() if left_at[ref] >= index}
        own: list[Move] = []
        while queue and queue[0].dst[0] in item.weights:
            own.append(queue.popleft())
        held.update((move.dst[0], move.num_elements) for move in own)
        ahead: list[Move] = []
        room = min(engine.live_elements - sum(held.values()), engine.prefetch_elements)
        while queue and room > 0 and written_at[queue[0].dst[0]] < index:
            ahead.append(queue.popleft())
            room -= ahead[-1].num_elements
        held.update((move.dst[0], move.num_elements) for move in ahead)
        out += [(place, move) for moves in (own, ahead) for move in coalesced(moves)]
    return Program(out, program.tensors)


def gather_by_layer(program: Program) -> Program:
    """Fetch all weights that a call gathers together, at its first hook, or, for the backward of a layer, at the first
    hook of the call before it, ahead of the reduction that the call before ends with (PyTorch FSDP, BACKWARD_PRE).
    Gathers from a second copy that has not been written yet stay where they are."""
    items = program.items
    written_at = _sources_written(items)
    first_hook: dict[Place, int] = {}
    for index, (place, item) in enumerate(items):
        if isinstance(item, Hook):
            first_hook.setdefault(place, index)
    before = {place: earlier for earlier, place in pairwise(first_hook) if place.label == "backward"}
    wanted: dict[Place, dict[Place, list[Move]]] = defaultdict(lambda: defaultdict(list))
    for place, item in items:
        if is_gather(item):
            hooks = (each for each in (before.get(place, place), place) if written_at[item.dst[0]] < first_hook[each])
            if (at := next(hooks, None)) is not None:
                wanted[at][place].append(item)
    moved = {ref for calls in wanted.values() for moves in calls.values() for move in moves for ref in move.dst}
    out: Placed = []
    for place, item in items:
        if is_gather(item) and item.dst[0] in moved:
            continue
        out.append((place, item))
        if isinstance(item, Hook):
            out += [(place, move) for moves in wanted.pop(place, {}).values() for move in coalesced(moves)]
    return Program(out, program.tensors)


def gather_in_buckets(program: Program, max_elements: int) -> Program:
    """Fetch the weights of a call at its first hook, in as many calls of the library as buckets of `max_elements` hold
    them (Megatron-Core's `overlap_param_gather`: param_and_grad_buffer.py). A bucket ends with its layer."""
    items = program.items
    wanted: dict[Place, list[Move]] = defaultdict(list)
    for place, item in items:
        if is_gather(item):
            wanted[place].append(item)
    if not wanted:
        return program
    out: Placed = []
    for place, item in items:
        if is_gather(item):
            continue
        out.append((place, item))
        if isinstance(item, Hook):
            out += [(place, move) for held in _filled(wanted.pop(place, []), max_elements) for move in coalesced(held)]
    return Program(out, program.tensors)


def _filled(moves: list[Move], max_elements: int) -> list[list[Move]]:
    """Return consecutive moves in groups that no further move of them would fit into."""
    groups: list[list[Move]] = []
    room = 0
    for move in moves:
        if not groups or move.num_elements > room:
            groups.append([])
            room = max_elements
        groups[-1].append(move)
        room -= move.num_elements
    return groups


def _sources_written(items: Placed) -> dict[Ref, int]:
    """Return, for each gathered buffer, the index of the last op before its gather that writes the source of the
    gather, or -1 if there is none."""
    written: dict[Ref, int] = {}
    out: dict[Ref, int] = {}
    for index, (_, item) in enumerate(items):
        if isinstance(item, Compute):
            written.update((ref, index) for ref in item.writes)
        elif is_gather(item):
            out[item.dst[0]] = max(written.get(ref, -1) for ref in item.src)
    return out


def _last_uses(items: Placed) -> dict[Ref, int]:
    last: dict[Ref, int] = {}
    for index, (_, item) in enumerate(items):
        if isinstance(item, Compute):
            for ref in item.reads:
                last[ref] = index
    return last


def coalesced(moves: list[Move]) -> list[Move]:
    """Merge moves of one purpose and one route into one call; the calls keep the order in which their first moves
    appear."""
    merged: dict[tuple[Purpose, tuple[Hop, ...]], list[Move]] = defaultdict(list)
    for move in moves:
        merged[move.purpose, move.hops].append(move)
    return [
        same[0]
        if len(same) == 1
        else replace(
            same[0],
            src=tuple(ref for move in same for ref in move.src),
            dst=tuple(ref for move in same for ref in move.dst),
            num_elements=sum(move.num_elements for move in same),
        )
        for same in merged.values()
    ]


def bucket(
    program: Program, purpose: Purpose, max_elements: float, together: bool = True, by_layer: bool = False
) -> Program:
    """Delay the moves of one purpose until the next move would overflow the bucket, then issue them as one call. Where
    the moves cannot share a call (`together` is false), they are issued one after the other once all tensors of the
    bucket are available. The rest of a bucket is issued at the end of the layer's backward (`by_layer`), of the
    micro-batch's, or of the step."""
    items = program.items
    last_of = _flush_points(items, purpose, by_layer)
    if not last_of:
        return program
    out: Placed = []
    held: list[Move] = []

    def flush(place: Place) -> None:
        if not together and len(held) > 1:
            out.append((place, _stream_wait_of(held)))
        out.extend((place, move) for move in (coalesced(held) if together else held))
        held.clear()

    for index, (place, item) in enumerate(items):
        if isinstance(item, Move) and item.purpose == purpose:
            if sum(move.num_elements for move in held) + item.num_elements > max_elements:
                flush(place)
            held.append(item)
        else:
            out.append((place, item))
        if index in last_of:
            flush(place)
    return Program(out, program.tensors)


def _stream_wait_of(held: list[Move]) -> StreamWait:
    """Return the wait of the reduction stream for all gradients of a full bucket. DeepSpeed's reduction stream is idle
    until a bucket is full, and then waits for the last gradient (stage3.py, `__reduce_and_partition_ipg_grads`)."""
    waits = tuple(dict.fromkeys(ref for move in held for ref in move.src))
    return StreamWait(name="bucket", waits=waits, purpose=held[0].purpose)


def _flush_points(items: Placed, purpose: Purpose, by_layer: bool) -> set[int]:
    """Return the indices of items after which a bucket of this purpose must be flushed: the last move of this purpose
    in each call of a layer (`by_layer`), in each micro-batch, or in the step."""
    last: dict[int | Place, int] = {}
    for index, (place, item) in enumerate(items):
        if isinstance(item, Move) and item.purpose == purpose:
            last[place if by_layer else item.src[0].micro] = index
    return set(last.values())


def after_their_gradients(program: Program) -> Program:
    """Place each reduction at the end of the step behind the (bucketed) gradient move that completes its
    accumulator."""
    items = program.items
    completes: dict[Ref, int] = {}
    for index, (_, item) in enumerate(items):
        if isinstance(item, Move) and item.purpose == "gradient":
            completes.update((ref, index) for ref in item.dst)
    if not completes:
        return program
    delayed: dict[int, list[Item]] = defaultdict(list)
    out: Placed = []
    for index, (place, item) in enumerate(items):
        if isinstance(item, Move) and item.purpose == "step_reduction" and completes.get(item.src[0], -1) > index:
            delayed[completes[item.src[0]]].append(item)
            continue
        out.append((place, item))
        out.extend((place, late) for late in delayed.pop(index, []))
    return Program(out, program.tensors)


def throttle(program: Program, outstanding: int) -> Program:
    """Limit the host to `outstanding` fetches ahead of the device: each hook waits for the completion token of the
    fetch issued `outstanding` + 1 modules before."""
    tensors = dict(program.tensors)
    token_of: dict[Ref, Ref] = {}
    fetched: Placed = []
    for place, item in program.items:
        if is_gather(item):
            first = item.dst[0]
            token = Ref(f"fetch.{first.name}", first.layer, first.micro)
            tensors.setdefault(token.name, token_tensor(token.name, tensors[first.name].per_layer))
            item = replace(item, token=token)
            token_of.update((ref, token) for ref in item.dst)
        fetched.append((place, item))
    tokens: list[Ref] = []
    out: Placed = []
    for place, item in fetched:
        if isinstance(item, Hook):
            item = replace(item, waits=(tokens[-1 - outstanding],) if len(tokens) > outstanding else ())
            tokens.append(token_of[item.weights[0]])
        out.append((place, item))
    return Program(out, tensors)


def keep_recomputed(program: Program) -> Program:
    """Let the backward of a layer reuse the weights that the layer's recomputed forward gathered, instead of gathering
    them again."""
    items = program.items
    gathered = {item.dst[0] for _, item in items if is_gather(item)}
    renamed: dict[Ref, Ref] = {}
    for ref in gathered:
        tensor = program.tensors[ref.name]
        before = Ref(gathered_name(tensor.weight or "", "recompute"), ref.layer, ref.micro)
        if tensor.stage == "backward" and before in gathered:
            renamed[ref] = before
    return _renamed(program, items, renamed)


def _renamed(program: Program, items: Placed, renamed: dict[Ref, Ref]) -> Program:
    """Return the program without the gathers into the `renamed` buffers; ops that read such a buffer read its
    replacement."""
    if not renamed:
        return program
    out: Placed = []
    for place, item in items:
        if is_gather(item) and item.dst[0] in renamed:
            continue
        if isinstance(item, Compute) and any(ref in renamed for ref in item.reads):
            item = replace(item, reads=tuple(renamed.get(ref, ref) for ref in item.reads))
        elif isinstance(item, Hook):
            item = replace(item, weights=tuple(renamed.get(ref, ref) for ref in item.weights))
        out.append((place, item))
    return Program(out, program.tensors)


def fetch_next(program: Program) -> Program:
    """Fetch at each hook the missing weights of its module and those of the next module: prefetch by one module
    (AxoNN's overlapped all-gathers). A second copy that has not been written yet is not fetched before it is
    written."""
    items = program.items
    queue = deque(item for _, item in items if is_gather(item))
    written_at = _sources_written(items)
    hooks = [(index, item) for index, (_, item) in enumerate(items) if isinstance(item, Hook)]
    following = {index: later.weights for (index, _), (_, later) in pairwise(hooks)}
    out: Placed = []
    for index, (place, item) in enumerate(items):
        if is_gather(item):
            continue
        out.append((place, item))
        if isinstance(item, Hook):
            ahead = [ref for ref in following.get(index, ()) if written_at.get(ref, -1) < index]
            while queue and queue[0].dst[0] in {*item.weights, *ahead}:
                out.append((place, queue.popleft()))
    return Program(out, program.tensors)


def fetch_at_hooks(program: Program) -> Program:
    """Delay the fetches of a hook until the rank's computation reaches the hook's module: until the previous op has
    written its results and the inputs of the next op are available. Otherwise a lane of fetches would run many layers
    ahead of the computation."""
    items = program.items
    out: Placed = []
    written: tuple[Ref, ...] = ()
    for index, (place, item) in enumerate(items):
        if isinstance(item, Compute):
            written = _activations(program, item.writes) or written
        elif isinstance(item, Hook) and index + 1 < len(items) and is_gather(items[index + 1][1]):
            waits = dict.fromkeys((*written, *_read_next(program, items, index)))
            out.append((place, StreamWait(name=item.module, waits=tuple(waits), purpose="weight_gather")))
            continue
        out.append((place, item))
    return Program(out, program.tensors)


def _read_next(program: Program, items: Placed, index: int) -> tuple[Ref, ...]:
    """Return the activations that the next op after the item at `index` reads, except those that are still to be moved
    at that point."""
    moved: set[Ref] = set()
    for _, item in items[index:]:
        if isinstance(item, Compute):
            return tuple(ref for ref in _activations(program, item.reads) if ref not in moved)
        if isinstance(item, Move):
            moved.update(item.dst)
    return ()


def _activations(program: Program, refs: tuple[Ref, ...]) -> tuple[Ref, ...]:
    return tuple(ref for ref in refs if program.tensors[ref.name].role == "activation")


def passes_of(engine: Engine, plan: Plan) -> list[Callable[[Program], Program]]:
    """Return the passes that an engine runs for a plan, in order."""
    passes: list[Callable[[Program], Program]] = [weights_first] if plan.weights_first else []
    if plan.gathers_again:
        passes.append(lambda p: reuse(p, engine.reuse_elements))
    else:
        passes.append(keep_recomputed)
    if plan.overlapped is not None:
        if "weight_gather" in plan.overlapped:
            if plan.gathers_once:  # copies have room for all layers
                passes.append(lambda p: gather_in_buckets(p, engine.gather_bucket_elements))
            else:
                passes += [fetch_next, fetch_at_hooks] if engine.overlap else [fetch_next]
    elif engine.granularity == "layer":
        passes.append(gather_by_layer)
    elif engine.overlap and engine.prefetch_elements:
        passes.append(lambda p: prefetch(p, engine))
    if plan.buckets:
        by_layer, together = engine.granularity == "layer", not plan.one_at_a_time
        most = math.inf if by_layer else engine.reduce_bucket_elements
        passes.append(lambda p: bucket(p, "gradient", most, together, by_layer))
    passes += [
        after_their_gradients,
        lambda p: bucket(p, "step_reduction", engine.reduce_bucket_elements),
        lambda p: bucket(p, "publish", engine.gather_bucket_elements),
    ]
    if plan.hooks:
        passes.append(lambda p: throttle(p, engine.outstanding_fetches))
    if engine.overlap:
        purposes = OVERLAPPED if plan.overlapped is None else plan.overlapped
        if "input_gather" in purposes:
            passes.append(inputs_first)
        passes.append(lambda p: overlap(p, purposes))
        if plan.overlaps_statistics:
            passes.append(statistics_beside)
        if engine.synchronise == "layer":
            passes.append(synchronise_layers)
    if engine.synchronise == "experts":
        passes.append(synchronise_experts)
    return passes
