"""Pipeline orders: small ones by hand, peak number of micro-batches, and bubbles in closed form."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.plan.orders import Boundary, Event, StagePass, events_of, works_of
from simfrontier.core.plan.plan import Pipeline

Order = Literal["gpipe", "1f1b", "interleaved"]


def pipeline(order: Order = "1f1b", chunks: int = 1, overlap: bool = False) -> Pipeline:
    return Pipeline(axis="stage", order=order, chunks=chunks, overlap=overlap)


def programs(how: Pipeline, num_stages: int, num_micro: int) -> list[list[Event]]:
    return [events_of(how, num_stages, stage, num_micro) for stage in range(num_stages)]


def text_of(events: list[Event]) -> str:
    return " ".join(map(word, events))


def word(event: Event) -> str:
    """`F2` and `B2` (with several chunks `F1.2`: chunk 1); an exchange after stage 0 as `0>2` (x of micro-batch 2
    goes down), `0<1` (d.x of micro-batch 1 comes up), `0>2<1` (both)."""
    if isinstance(event, StagePass):
        chunk = f"{event.chunk}." if event.chunk else ""
        return f"{'F' if event.is_forward else 'B'}{chunk}{event.micro}"
    chunk = f".{event.chunk}" if event.chunk else ""
    down = f">{event.forward}" if event.direction != "backward" else ""
    up = f"<{event.backward}" if event.direction != "forward" else ""
    return f"{event.upper}{chunk}{down}{up}"


# ── by hand ──


@pytest.mark.parametrize(
    ("how", "num_micro", "stages"),
    [
        (pipeline("gpipe"), 2, ["F0 0>0 F1 0>1 0<0 B0 0<1 B1", "0>0 F0 0>1 F1 B0 0<0 B1 0<1"]),
        (pipeline("1f1b"), 3, ["F0 0>0 F1 0>1<0 B0 F2 0>2<1 B1 0<2 B2", "0>0 F0 B0 0>1<0 F1 B1 0>2<1 F2 B2 0<2"]),
        (
            pipeline("1f1b"),
            4,
            [
                "F0 0>0 F1 0>1 F2 0>2<0 B0 F3 0>3<1 B1 0<2 B2 0<3 B3",
                "0>0 F0 1>0 0>1 F1 1>1<0 B0 0>2<0 F2 1>2<1 B1 0>3<1 F3 1>3<2 B2 0<2 1<3 B3 0<3",
                "1>0 F0 B0 1>1<0 F1 B1 1>2<1 F2 B2 1>3<2 F3 B3 1<3",
            ],
        ),
        (
            pipeline("1f1b", overlap=True),
            2,
            ["F0 0>0 F1 0>1 0<0 B0 0<1 B1", "0>0 F0 B0 0<0 0>1 F1 B1 0<1"],
        ),
    ],
    ids=["gpipe 2", "1f1b 2", "1f1b 3", "1f1b beside"],
)
def test_small_orders_by_hand(how: Pipeline, num_micro: int, stages: list[str]) -> None:
    assert [text_of(events) for events in programs(how, len(stages), num_micro)] == stages


def test_interleaved_by_hand() -> None:
    """Two stages, two chunks, four micro-batches. Stage 0 has chunks 0 and 2 of four; its warm-up is 2 · 1 + 1 · 2 = 4
    forwards (micro-batches 0, 1 through each of its chunks), stage 1's is 0 + 1 · 2 = 2. Backwards begin with the last
    chunk."""
    how = pipeline("interleaved", 2, overlap=True)

    def works(stage: int) -> str:
        return text_of(list(works_of(how, 2, stage, 4)))

    assert works(0) == "F0 F1 F1.0 F1.1 F2 B1.0 F3 B1.1 F1.2 B0 F1.3 B1 B1.2 B1.3 B2 B3"
    assert works(1) == "F0 F1 F1.0 B1.0 F1.1 B1.1 F2 B0 F3 B1 F1.2 B1.2 F1.3 B1.3 B2 B3"


# ── of every pipeline ──

sizes = st.tuples(st.integers(1, 8), st.integers(1, 12))  # stages, micro-batches
interleaved = st.tuples(
    st.builds(pipeline, st.just("interleaved"), st.integers(2, 4), st.just(True)),
    st.tuples(st.integers(2, 8), st.integers(1, 3)).map(lambda pair: (pair[0], pair[0] * pair[1])),
)
Case = tuple[Pipeline, tuple[int, int]]


@given(num=sizes, overlap=st.booleans())
def test_1f1b_holds_at_most_as_many_micro_batches_as_stages_from_here_on(num: tuple[int, int], overlap: bool) -> None:
    num_stages, num_micro = num
    for stage, events in enumerate(programs(pipeline("1f1b", 1, overlap), num_stages, num_micro)):
        held = most = 0
        for event in events:
            if isinstance(event, StagePass):
                held += 1 if event.is_forward else -1
                most = max(most, held)
        assert held == 0
        assert most == min(num_stages - stage, num_micro)


# ── the bubble ──


def makespan(how: Pipeline, num_stages: int, num_micro: int, forward: int, backward: int) -> int:
    """When the last stage is done if a chunk's forward and backward take so long, and exchanges no time. Blocking ones
    hold both stages until they meet; others only the one that receives. Fails where the stages wait for one another."""
    every = programs(how, num_stages, num_micro)
    at, now = [0] * num_stages, [0] * num_stages
    came: dict[tuple[int, Boundary], int] = {}  # when a stage got to a meeting, or what it sends was there
    while any(at[stage] < len(events) for stage, events in enumerate(every)):
        moved = False
        for stage, events in enumerate(every):
            while at[stage] < len(events):
                event = events[at[stage]]
                if isinstance(event, StagePass):
                    now[stage] += forward if event.is_forward else backward
                else:
                    lower = (event.upper + 1) % num_stages
                    peer = lower if stage == event.upper else event.upper
                    came.setdefault((stage, event), now[stage])
                    sends = stage == (event.upper if event.direction == "forward" else lower)
                    if not (how.overlap and sends):
                        if (peer, event) not in came:
                            break
                        now[stage] = max(now[stage], came[peer, event])
                at[stage] += 1
                moved = True
        assert moved, "the stages wait for one another"
    return max(now)


@given(num=sizes, order=st.sampled_from(["gpipe", "1f1b"]), overlap=st.booleans(), cost=st.integers(1, 5))
def test_the_bubble_is_stages_less_one_over_micro_batches(
    num: tuple[int, int], order: Order, overlap: bool, cost: int
) -> None:
    """(M + P - 1) (f + b) instead of M (f + b), with a backward of twice the forward or any other."""
    num_stages, num_micro = num
    took = makespan(pipeline(order, 1, overlap), num_stages, num_micro, 2, 2 * cost)
    assert took == (num_micro + num_stages - 1) * (2 + 2 * cost)


@given(case=interleaved, cost=st.integers(1, 5))
def test_chunks_divide_the_bubble(case: Case, cost: int) -> None:
    """(v M + P - 1) (f + b), f and b being those of a chunk: the bubble is 1/v of that of the same layers in one."""
    how, (num_stages, num_micro) = case
    took = makespan(how, num_stages, num_micro, 1, cost)
    assert took == (how.chunks * num_micro + num_stages - 1) * (1 + cost)
