"""Pipeline schedules: the order in which a stage runs its micro-batches and exchanges tensors with its neighbours."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final, Literal, NamedTuple

from simfrontier.core.plan.plan import Pipeline

Direction = Literal["forward", "backward", "both"]
PassKind = Literal["forward", "backward", "input_gradient", "weight_gradient"]
"""A backward is one pass, or two: `input_gradient`, for which the stage before waits, and `weight_gradient`, for which
nothing waits but the end of the step."""


class StagePass(NamedTuple):
    """Pass of one micro-batch through one chunk of layers of a stage."""

    kind: PassKind
    chunk: int
    micro: int

    @property
    def is_forward(self) -> bool:
        return self.kind == "forward"


class Boundary(NamedTuple):
    """Exchange between two stages, at the boundary after chunk `chunk` of stage `upper`: the activations of micro-batch
    `forward`, the gradient of micro-batch `backward`, or both at once."""

    upper: int
    chunk: int
    direction: Direction
    forward: int
    backward: int


class Overlapped(NamedTuple):
    """A forward and a backward of two micro-batches on one stage whose ops alternate; what they compute is sent when
    both are done."""

    forward: StagePass
    backward: StagePass


Work = StagePass | Overlapped
Event = Work | Boundary


def events_of(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> list[Event]:
    """Return the events of a stage in one step, in order: each pass comes after the receipt of its inputs and before
    the sending of its outputs.

    With blocking exchanges, 1F1B after warm-up sends and receives at a boundary in one exchange, as in Megatron-LM's
    send-forward-receive-backward and send-backward-receive-forward; in ZB-H1, weight gradients follow this exchange.
    """
    warm = _warm_up(pipeline, num_stages, stage, num_micro)
    merges = pipeline.order in ("1f1b", "zb-h1") and not pipeline.overlap
    out: list[Event] = []
    for number, work in enumerate(works_of(pipeline, num_stages, stage, num_micro)):
        passes = work if isinstance(work, Overlapped) else (work,)
        meetings = [_meetings(pipeline, num_stages, stage, each) for each in passes]
        for received in [received for received, _ in meetings if received is not None]:
            at = _last_exchange(out) if merges and number > warm else None
            before = None if at is None else out[at]
            if at is not None and isinstance(before, Boundary) and before[:2] == received[:2]:
                forward, backward = (received, before) if received.direction == "forward" else (before, received)
                out[at] = received._replace(direction="both", forward=forward.forward, backward=backward.backward)
            else:
                out.append(received)
        out.append(work)
        out += [sent for _, sent in meetings if sent is not None]
    return out


def _last_exchange(events: list[Event]) -> int | None:
    """Return the index of the last event, if it is an exchange or only weight gradients follow it."""
    for at in range(len(events) - 1, -1, -1):
        event = events[at]
        if not isinstance(event, StagePass) or event.kind != "weight_gradient":
            return at
    return None


def _warm_up(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> int:
    """Return the number of warm-up forwards of a stage: the forwards before its first backward, without the one
    directly before this backward."""
    if pipeline.order == "gpipe":
        return num_micro
    total, more = num_micro * pipeline.chunks, int(pipeline.alternates)
    if pipeline.order in ("1f1b", "zb-h1"):
        return min(num_stages - 1 - stage + (pipeline.chunks - 1) * num_stages + more, total)
    if num_micro == num_stages:
        return total
    return min((num_stages - 1 - stage) * 2 + (pipeline.chunks - 1) * num_stages + more, total)


def works_of(pipeline: Pipeline, num_stages: int, stage: int, num_micro: int) -> list[Work]:
    """Return the passes of a stage in order.

    gpipe: all forwards, then all backwards. 1f1b: as many forwards as there are stages after this one, then forwards
    and backwards in turn (PipeDream-flush). interleaved: 1F1B on chunks, with micro-batches in groups as large as the
    number of stages, and the warm-up of Megatron-LM (core/pipeline_parallel/schedules.py, 2021 and later). zb-h1: 1F1B
    in which a stage computes gradients of weights as many backwards later as there are stages before it (ZB-H1 of arXiv
    2401.10241), so that all stages keep as many micro-batches; with several chunks, torch.distributed.pipelining's
    ScheduleInterleavedZeroBubble. If passes alternate, each backward does so with the forward before it, and there is
    one more forward in the warm-up, since the last stage's backward needs its own (Megatron-Core,
    core/pipeline_parallel/schedules.py, overlap_moe_expert_parallel_comm). zb-v and dualpipev: see `_zb_v` and
    `_dualpipe_v`.
    """
    if pipeline.is_v:
        steps = (_zb_v if pipeline.order == "zb-v" else _dualpipe_v)(
            num_stages, stage, max(num_micro, 2 * num_stages - 1)
        )
        return list(_numbered(steps, num_micro))
    total, warm = num_micro * pipeline.chunks, _warm_up(pipeline, num_stages, stage, num_micro)
    forwards, backwards = [], []
    for k in range(total):
        chunk, micro = _chunk_and_micro(k, num_stages, pipeline.chunks)
        forwards.append(StagePass("forward", chunk, micro))
        kind: PassKind = "input_gradient" if pipeline.splits_backward else "backward"
        backwards.append(StagePass(kind, pipeline.chunks - 1 - chunk, micro))
    out: list[Work] = [*forwards[:warm]]
    for k, backward in enumerate(backwards):
        forward = forwards[warm + k : warm + k + 1]
        out += [Overlapped(forward[0], backward)] if forward and pipeline.alternates else [*forward, backward]
        if pipeline.splits_backward and k >= stage:
            out.append(backwards[k - stage]._replace(kind="weight_gradient"))
    left = backwards[max(0, total - stage) :] if pipeline.splits_backward else []
    return out + [work._replace(kind="weight_gradient") for work in left]


Step = tuple[str, int]
"""Passes, and how often they are repeated: forward (F), input gradients (I) or whole backward (B) of a chunk, each of
the chunk's next micro-batch; weight gradients (W) in the order of their input gradients; F0&B1 overlap."""


def _zb_v(num_stages: int, stage: int, num_micro: int) -> Iterator[Step]:
    """Yield the steps of ZB-V (arXiv 2401.10241, section 6; as in torch.distributed.pipelining): two chunks per stage,
    the second one on the way back; a stage never idles between its first and its last pass if a chunk's forward, input
    gradients and weight gradients take equally long. `num_micro` is at least 2 `num_stages` - 1."""
    after = num_stages - stage
    yield "F0", 2 * after - 1
    yield "F1 F0", stage
    yield "F1 I1 W", after
    yield "F0 I0 W F1 I1 W", num_micro - num_stages - after + 1
    yield "I0 W F1 I1 W", after - 1
    yield "I0 I1", stage
    yield "I0 W", after
    yield "W", 2 * stage


def _dualpipe_v(num_stages: int, stage: int, num_micro: int) -> Iterator[Step]:
    """Yield the steps of DualPipeV (github.com/deepseek-ai/DualPipe, dualpipe/dualpipev.py): DualPipe of arXiv
    2412.19437 cut in half. `num_micro` is at least 2 `num_stages` - 1."""
    after, half = num_stages - 1 - stage, (stage + 1) // 2
    yield "F0", 2 * after
    yield "F0 F1", stage + 1
    yield "I1 W F1", after
    main = num_micro - 2 * num_stages + stage + 1
    if after == 0:  # not overlapped: the stage would wait longer for the second one
        yield "F0 B1 F1&B0", 1
        main -= 1
    yield "F0&B1 F1&B0", main
    yield "B1 F1&B0", after
    yield "B1 B0", half
    if stage % 2 == 0:
        yield "B1 I0", 1
    yield "I1 I0", half
    yield "W I0", after
    yield "W", stage + 1


_KINDS: Final[dict[str, PassKind]] = {"F": "forward", "I": "input_gradient", "B": "backward", "W": "weight_gradient"}


def _numbered(steps: Iterator[Step], num_micro: int) -> Iterator[Work]:
    """Yield the passes of steps, without those of micro-batches from `num_micro` on."""
    count: Counter[tuple[bool, int]] = Counter()
    waiting: deque[StagePass] = deque()

    def numbered(word: str) -> StagePass:
        kind = _KINDS[word[0]]
        if kind == "weight_gradient":
            return waiting.popleft()._replace(kind=kind)
        chunk = int(word[1])
        work = StagePass(kind, chunk, count[kind == "forward", chunk])
        count[kind == "forward", chunk] += 1
        if kind == "input_gradient":
            waiting.append(work)
        return work

    for word in (word for words, times in steps for word in words.split() * times):
        passes = [work for work in map(numbered, word.split("&")) if work.micro < num_micro]
        if len(passes) == 2:
            yield Overlapped(*passes)
        else:
            yield from passes


def _chunk_and_micro(number: int, num_stages: int, chunks: int) -> tuple[int, int]:
    """Return (chunk, micro-batch) of the `number`-th forward of a stage: `num_stages` micro-batches pass through one
    chunk, then the same micro-batches through the next chunk."""
    if chunks == 1:
        return 0, number
    group, inside = divmod(number, num_stages * chunks)
    chunk, micro = divmod(inside, num_stages)
    return chunk, group * num_stages + micro


def _meetings(
    pipeline: Pipeline, num_stages: int, stage: int, work: StagePass
) -> tuple[Boundary | None, Boundary | None]:
    """Return the exchanges by which a pass receives its input and sends its output; None where the model begins or
    ends, where the neighbouring chunk is on the same stage, and for weight gradients."""
    if work.kind == "weight_gradient":
        return None, None
    number = pipeline.number_of(stage, work.chunk, num_stages)
    direction: Direction = "forward" if work.is_forward else "backward"

    def after(upper: int) -> Boundary | None:
        """Return the exchange at the boundary after a group of layers."""
        if not 0 <= upper < num_stages * pipeline.chunks - 1:
            return None
        (own, chunk), (lower, _) = (pipeline.home_of(each, num_stages) for each in (upper, upper + 1))
        return None if own == lower else Boundary(own, chunk, direction, work.micro, work.micro)

    above, below = after(number - 1), after(number)
    return (above, below) if work.is_forward else (below, above)
