"""The order in which a pipeline stage runs its micro-batches and exchanges with its neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from simfrontier.core.plan.plan import Pipeline

Direction = Literal["forward", "backward", "both"]


class StagePass(NamedTuple):
    """A stage's forward or backward of one micro-batch through one of its chunks of layers."""

    is_forward: bool
    chunk: int
    micro: int


class Boundary(NamedTuple):
    """Two stages exchange at the boundary after chunk `chunk` of stage `upper`: the stream of micro-batch `forward`,
    the gradient of micro-batch `backward`, or both at once."""

    upper: int
    chunk: int
    direction: Direction
    forward: int
    backward: int


Event = StagePass | Boundary


def events_of(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> list[Event]:
    """What a stage does in one step, in order."""
    if pipeline.overlap:
        return list(_beside(pipeline, num_stages, stage, num_micro))
    if pipeline.order == "gpipe":
        return list(_gpipe(num_stages, stage, num_micro))
    return list(_one_forward_one_backward(num_stages, stage, num_micro))


def works_of(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> list[StagePass]:
    """A stage's forwards and backwards in order.

    gpipe: all forwards, then all backwards. 1f1b: as many forwards as there are stages after this one, then a forward
    and a backward in turn (PipeDream-flush). interleaved: the same on chunks, micro-batches in groups of as many as
    there are stages, with warm-ups as in Megatron-LM (core/pipeline_parallel/schedules.py, 2021 and later).
    """
    per_chunk = pipeline.chunks if pipeline.order == "interleaved" else 1
    total = num_micro * per_chunk
    if pipeline.order == "gpipe":
        warm = total
    elif pipeline.order == "1f1b":
        warm = min(num_stages - 1 - stage, total)
    else:
        warm = min((num_stages - 1 - stage) * 2 + (per_chunk - 1) * num_stages, total)
        warm = total if num_micro == num_stages else warm
    forwards = [StagePass(True, *_chunk_and_micro(k, num_stages, per_chunk)) for k in range(total)]
    backwards = []
    for k in range(total):
        chunk, micro = _chunk_and_micro(k, num_stages, per_chunk)
        backwards.append(StagePass(False, per_chunk - 1 - chunk, micro))
    out = forwards[:warm]
    for number in range(total - warm):
        out += [forwards[warm + number], backwards[number]]
    return out + backwards[total - warm :]


def _chunk_and_micro(number: int, num_stages: int, chunks: int) -> tuple[int, int]:
    """Which chunk and micro-batch the number-th forward of a stage is of: `num_stages` micro-batches through one chunk,
    then the same through the next."""
    if chunks == 1:
        return 0, number
    group, inside = divmod(number, num_stages * chunks)
    chunk, micro = divmod(inside, num_stages)
    return chunk, group * num_stages + micro


def _gpipe(num_stages: int, stage: int, num_micro: int) -> Iterator[Event]:
    for micro in range(num_micro):
        if stage > 0:
            yield Boundary(stage - 1, 0, "forward", micro, 0)
        yield StagePass(True, 0, micro)
        if stage < num_stages - 1:
            yield Boundary(stage, 0, "forward", micro, 0)
    for micro in range(num_micro):
        yield from _backward_alone(num_stages, stage, micro)


def _backward_alone(num_stages: int, stage: int, micro: int) -> Iterator[Event]:
    if stage < num_stages - 1:
        yield Boundary(stage, 0, "backward", 0, micro)
    yield StagePass(False, 0, micro)
    if stage > 0:
        yield Boundary(stage - 1, 0, "backward", 0, micro)


def _one_forward_one_backward(num_stages: int, stage: int, num_micro: int) -> Iterator[Event]:
    """Between a forward and a backward a stage sends one way and receives the other way in one exchange, as
    Megatron-LM's send-forward-receive-backward and send-backward-receive-forward do."""
    warm = min(num_stages - 1 - stage, num_micro)
    is_first, is_last = stage == 0, stage == num_stages - 1
    for micro in range(warm):
        if not is_first:
            yield Boundary(stage - 1, 0, "forward", micro, 0)
        yield StagePass(True, 0, micro)
        if not is_last:
            yield Boundary(stage, 0, "forward", micro, 0)
    if warm < num_micro and not is_first:
        yield Boundary(stage - 1, 0, "forward", warm, 0)
    for micro in range(num_micro - warm):
        ahead = warm + micro
        yield StagePass(True, 0, ahead)
        if not is_last:
            yield Boundary(stage, 0, "both", ahead, micro)
        yield StagePass(False, 0, micro)
        if not is_first:
            if ahead + 1 < num_micro:
                yield Boundary(stage - 1, 0, "both", ahead + 1, micro)
            else:
                yield Boundary(stage - 1, 0, "backward", 0, micro)
    for micro in range(num_micro - warm, num_micro):
        yield from _backward_alone(num_stages, stage, micro)


def _beside(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> Iterator[Event]:
    """Every work between the receipt of what it needs and the sending of what it makes, each on its own."""
    for work in works_of(pipeline, num_stages, stage, num_micro):
        before = _boundary(num_stages, stage, work.chunk, above=True)
        after = _boundary(num_stages, stage, work.chunk, above=False)
        if after is not None and after[1] == pipeline.chunks - 1 and after[0] == num_stages - 1:
            after = None  # nothing follows the last chunk of the last stage
        first, second = (before, after) if work.is_forward else (after, before)
        direction: Direction = "forward" if work.is_forward else "backward"
        if first is not None:
            yield Boundary(*first, direction, work.micro, work.micro)
        yield work
        if second is not None:
            yield Boundary(*second, direction, work.micro, work.micro)


def _boundary(num_stages: int, stage: int, chunk: int, above: bool) -> tuple[int, int] | None:
    """(stage, chunk) above the boundary before (`above`) or after a chunk of a stage."""
    if not above:
        return stage, chunk
    if stage > 0:
        return stage - 1, chunk
    return (num_stages - 1, chunk - 1) if chunk > 0 else None
