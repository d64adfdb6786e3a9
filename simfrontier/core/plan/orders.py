"""Pipeline schedules: the order in which a stage runs its micro-batches and exchanges tensors with its neighbours."""

from __future__ import annotations

from typing import Literal, NamedTuple

from simfrontier.core.plan.plan import Pipeline

Direction = Literal["forward", "backward", "both"]


class StagePass(NamedTuple):
    """Forward or backward pass of one micro-batch through one chunk of layers of a stage."""

    is_forward: bool
    chunk: int
    micro: int


class Boundary(NamedTuple):
    """Exchange between two stages, at the boundary after chunk `chunk` of stage `upper`: the activations of micro-batch
    `forward`, the gradient of micro-batch `backward`, or both at once."""

    upper: int
    chunk: int
    direction: Direction
    forward: int
    backward: int


Event = StagePass | Boundary


def events_of(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> list[Event]:
    """Return the events of a stage in one step, in order: each pass comes after the receipt of its inputs and before
    the sending of its outputs.

    With blocking exchanges, 1F1B after warm-up sends and receives at a boundary in one exchange, as in Megatron-LM's
    send-forward-receive-backward and send-backward-receive-forward.
    """
    warm = _warm_up(pipeline, num_stages, stage, num_micro)
    merges = pipeline.order == "1f1b" and not pipeline.overlap
    out: list[Event] = []
    for number, work in enumerate(works_of(pipeline, num_stages, stage, num_micro)):
        direction: Direction = "forward" if work.is_forward else "backward"
        above, below = _boundaries(pipeline, num_stages, stage, work.chunk)
        received, sent = (above, below) if work.is_forward else (below, above)
        before = out[-1] if merges and number > warm else None
        if isinstance(before, Boundary) and received == before[:2]:
            forward, backward = (work.micro, before.backward) if work.is_forward else (before.forward, work.micro)
            out[-1] = before._replace(direction="both", forward=forward, backward=backward)
        elif received is not None:
            out.append(Boundary(*received, direction, work.micro, work.micro))
        out.append(work)
        if sent is not None:
            out.append(Boundary(*sent, direction, work.micro, work.micro))
    return out


def _warm_up(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> int:
    """Return the number of warm-up forwards of a stage: the forwards before its first backward, without the one
    directly before this backward."""
    if pipeline.order == "gpipe":
        return num_micro
    if pipeline.order == "1f1b":
        return min(num_stages - 1 - stage, num_micro)
    total = num_micro * pipeline.chunks
    if num_micro == num_stages:
        return total
    return min((num_stages - 1 - stage) * 2 + (pipeline.chunks - 1) * num_stages, total)


def works_of(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> list[StagePass]:
    """Return the forwards and backwards of a stage in order.

    gpipe: all forwards, then all backwards. 1f1b: as many forwards as there are stages after this one, then forwards
    and backwards in turn (PipeDream-flush). interleaved: 1F1B on chunks, with micro-batches in groups as large as the
    number of stages, and the warm-up of Megatron-LM (core/pipeline_parallel/schedules.py, 2021 and later).
    """
    per_chunk = pipeline.chunks if pipeline.order == "interleaved" else 1
    total, warm = num_micro * per_chunk, _warm_up(pipeline, num_stages, stage, num_micro)
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
    """Return (chunk, micro-batch) of the `number`-th forward of a stage: `num_stages` micro-batches pass through one
    chunk, then the same micro-batches through the next chunk."""
    if chunks == 1:
        return 0, number
    group, inside = divmod(number, num_stages * chunks)
    chunk, micro = divmod(inside, num_stages)
    return chunk, group * num_stages + micro


def _boundaries(
    pipeline: Pipeline, num_stages: int, stage: int, chunk: int
) -> tuple[tuple[int, int] | None, tuple[int, int] | None]:
    """Return the boundaries before and after a chunk of a stage, each as the (stage, chunk) above it; None before the
    first chunk of the first stage, and after the last chunk of the last stage."""
    before = (stage - 1, chunk) if stage > 0 else (num_stages - 1, chunk - 1)
    is_last = stage == num_stages - 1 and chunk == pipeline.chunks - 1
    return before if before[1] >= 0 else None, None if is_last else (stage, chunk)
