"""Pipeline orders: small ones by hand, peak number of micro-batches, and bubbles in closed form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pytest
from hypothesis import given, strategies as st

from simfrontier.core.plan.orders import Boundary, Event, Overlapped, PassKind, StagePass, events_of, works_of
from simfrontier.core.plan.plan import Pipeline, PipelineOrder


def pipeline(order: PipelineOrder = "1f1b", chunks: int = 1, overlap: bool = False) -> Pipeline:
    return Pipeline(axis="stage", order=order, chunks=chunks, overlap=overlap)


def programs(how: Pipeline, num_stages: int, num_micro: int) -> list[list[Event]]:
    return [events_of(how, num_stages, stage, num_micro) for stage in range(num_stages)]


def text_of(events: Iterable[Event]) -> str:
    return " ".join(map(word, events))


def word(event: Event) -> str:
    """`F2`, `B2`, `I2`, `W2` (with several chunks `F1.2`: chunk 1), `F1.2&B0`; an exchange after stage 0 as `0>2` (x of
    micro-batch 2 goes down), `0<1` (d.x of micro-batch 1 comes up), `0>2<1` (both)."""
    if isinstance(event, Overlapped):
        return "&".join(map(word, event))
    if isinstance(event, StagePass):
        chunk = f"{event.chunk}." if event.chunk else ""
        return f"{event.kind[0].upper()}{chunk}{event.micro}"
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
            pipeline("zb-h1"),
            3,
            [
                "F0 0>0 F1 0>1<0 I0 W0 F2 0>2<1 I1 W1 0<2 I2 W2",
                "0>0 F0 I0 0>1<0 F1 I1 0>2<1 W0 F2 I2 0<2 W1 W2",
            ],
        ),
        (
            pipeline("1f1b", overlap=True),
            2,
            ["F0 0>0 F1 0>1 0<0 B0 0<1 B1", "0>0 F0 B0 0<0 0>1 F1 B1 0<1"],
        ),
    ],
    ids=["gpipe 2", "1f1b 2", "1f1b 3", "zb-h1 2", "1f1b beside"],
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


def test_v_shapes_by_hand() -> None:
    """Two stages: chunk 0 goes down and chunk 1 up, so that both chunks of stage 1 follow one another without an
    exchange, and the loss is on stage 0. ZB-V: warm-up of 3 forwards on stage 0, and of 1 + 2 on stage 1. DualPipeV:
    the last stage begins the main part with two passes that do not overlap."""
    zb, dual = (pipeline(order, 2, overlap=True) for order in ("zb-v", "dualpipev"))

    def works(how: Pipeline, stage: int, num_micro: int) -> str:
        return text_of(works_of(how, 2, stage, num_micro))

    assert works(zb, 0, 3) == "F0 F1 F2 F1.0 I1.0 W1.0 F1.1 I1.1 W1.1 I0 W0 F1.2 I1.2 W1.2 I1 W1 I2 W2"
    assert works(zb, 1, 3) == "F0 F1.0 F1 F1.1 I1.0 W1.0 F2 I0 W0 F1.2 I1.1 W1.1 I1 I1.2 I2 W1 W1.2 W2"
    assert works(dual, 0, 4) == ("F0 F1 F2 F1.0 I1.0 W1.0 F1.1 F3&B1.1 F1.2&B0 B1.2 F1.3&B1 B1.3 I2 W2 I3 W3")
    assert works(dual, 1, 4) == ("F0 F1.0 F1 F1.1 F2 B1.0 F1.2&B0 F3&B1.1 F1.3&B1 B1.2 B2 I1.3 I3 W1.3 W3")
    exchanged = events_of(zb, 2, 0, 1)
    assert text_of(exchanged) == "F0 0>0 1.1>0 F1.0 I1.0 1.1<0 W1.0 0<0 I0 W0"
    assert text_of(events_of(zb, 2, 1, 1)) == "0>0 F0 F1.0 1.1>0 1.1<0 I1.0 W1.0 I0 0<0 W0"


# ── of every pipeline ──

sizes = st.tuples(st.integers(1, 8), st.integers(1, 12))  # stages, micro-batches
interleaved = st.tuples(
    st.builds(pipeline, st.just("interleaved"), st.integers(2, 4), st.just(True)),
    st.tuples(st.integers(2, 8), st.integers(1, 3)).map(lambda pair: (pair[0], pair[0] * pair[1])),
)
full = st.tuples(st.integers(2, 6), st.integers(0, 9)).map(lambda pair: (pair[0], 2 * pair[0] + pair[1]))
every = st.one_of(
    st.tuples(st.builds(pipeline, st.sampled_from(["gpipe", "1f1b", "zb-h1"]), st.just(1), st.booleans()), sizes),
    st.tuples(st.builds(pipeline, st.just("zb-v"), st.just(2), st.just(True)), sizes),
    st.tuples(st.builds(pipeline, st.just("dualpipev"), st.just(2), st.just(True)), full),
    interleaved,
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


def passes(works: Iterable[Event]) -> Iterator[StagePass]:
    """All passes, of overlapping ones the forward first."""
    for work in works:
        if not isinstance(work, Boundary):
            yield from (work,) if isinstance(work, StagePass) else work


@given(case=every)
def test_every_pass_runs_once_and_gradients_of_weights_after_those_of_inputs(case: Case) -> None:
    how, (num_stages, num_micro) = case
    for stage in range(num_stages):
        works = list(passes(works_of(how, num_stages, stage, num_micro)))
        assert len(set(works)) == len(works)
        for chunk, micro in ((chunk, micro) for chunk in range(how.chunks) for micro in range(num_micro)):
            kinds = [work.kind for work in works if work[1:] == (chunk, micro)]
            assert kinds in (["forward", "backward"], ["forward", "input_gradient", "weight_gradient"])
            assert how.splits_backward or kinds[-1] == "backward"


def most_kept(how: Pipeline, num_stages: int, stage: int, num_micro: int) -> int:
    """The most chunks whose activations, some of them at least, are in memory at once."""
    kept = most = 0
    for work in passes(works_of(how, num_stages, stage, num_micro)):
        kept += {"forward": 1, "input_gradient": 0}.get(work.kind, -1)
        most = max(most, kept)
    return most


@given(num=full)
def test_divided_backwards_keep_as_many_micro_batches_on_every_stage(num: tuple[int, int]) -> None:
    """ZB-H1 P, as 1F1B does on its first stage; ZB-V 2 P halves of a stage; DualPipeV one more (PP + 1 of PP = 2 P
    chunks in the table of github.com/deepseek-ai/DualPipe)."""
    num_stages, num_micro = num
    for stage in range(num_stages):
        kept = [
            most_kept(pipeline(order, chunks, overlap=True), num_stages, stage, num_micro)
            for order, chunks in (("zb-h1", 1), ("zb-v", 2), ("dualpipev", 2))
        ]
        assert kept == [num_stages, 2 * num_stages, 2 * num_stages + 1]
    assert most_kept(pipeline("gpipe"), num_stages, 0, num_micro) == num_micro


# ── the bubble ──


Costs = dict[PassKind | None, int]
"""How long each kind of pass takes; None: a forward and a backward that overlap."""


def costs(forward: int, inputs: int, weights: int, overlapped: int = 0) -> Costs:
    kinds: Costs = {"forward": forward, "input_gradient": inputs, "weight_gradient": weights}
    return {**kinds, "backward": inputs + weights, None: overlapped or forward + inputs + weights}


def idle(how: Pipeline, num_stages: int, num_micro: int, cost: Costs) -> list[int]:
    """How long each stage waits in a step, if exchanges take no time. Blocking ones hold both stages until they meet;
    others only the one that receives. Fails where the stages wait for one another."""
    every = programs(how, num_stages, num_micro)
    at, now, busy = ([0] * num_stages for _ in range(3))
    came: dict[tuple[int, Boundary], int] = {}  # when a stage got to a meeting, or what it sends was there
    while any(at[stage] < len(events) for stage, events in enumerate(every)):
        moved = False
        for stage, events in enumerate(every):
            while at[stage] < len(events):
                event = events[at[stage]]
                if not isinstance(event, Boundary):
                    took = cost[event.kind if isinstance(event, StagePass) else None]
                    now[stage], busy[stage] = now[stage] + took, busy[stage] + took
                else:
                    upper = how.number_of(event.upper, event.chunk, num_stages)
                    lower, _ = how.home_of(upper + 1, num_stages)
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
    return [max(now) - each for each in busy]


@given(num=sizes, order=st.sampled_from(["gpipe", "1f1b"]), overlap=st.booleans(), cost=st.integers(1, 5))
def test_the_bubble_is_stages_less_one_over_micro_batches(
    num: tuple[int, int], order: PipelineOrder, overlap: bool, cost: int
) -> None:
    """(M + P - 1) (f + b) instead of M (f + b), with a backward of twice the forward or any other."""
    num_stages, num_micro = num
    waits = idle(pipeline(order, 1, overlap), num_stages, num_micro, costs(2, cost, cost))
    assert waits == [(num_stages - 1) * (2 + 2 * cost)] * num_stages


@given(case=interleaved, cost=st.integers(1, 5))
def test_chunks_divide_the_bubble(case: Case, cost: int) -> None:
    """(v M + P - 1) (f + b), f and b being those of a chunk: the bubble is 1/v of that of the same layers in one."""
    how, (num_stages, num_micro) = case
    waits = idle(how, num_stages, num_micro, costs(2, cost, cost))
    assert waits == [(num_stages - 1) * (2 + 2 * cost)] * num_stages


cost = st.integers(1, 9)


@given(case=every)
def test_no_order_lets_stages_wait_for_one_another(case: Case) -> None:
    how, (num_stages, num_micro) = case
    idle(how, num_stages, num_micro, costs(1, 1, 1))


@given(num=full, chunks=st.integers(1, 3), forward=cost, inputs=cost, weights=cost)
def test_weight_gradients_fill_the_bubble_of_zb_h1(
    num: tuple[int, int], chunks: int, forward: int, inputs: int, weights: int
) -> None:
    """(P - 1) (F + I - W) of a chunk (arXiv 2401.10241, table 1: T_F + T_B - T_W) while W is no longer than F and I;
    blocking exchanges keep gradients of weights from filling what a stage waits for: (P - 1) (F + I)."""
    weights = min(weights, forward, inputs)
    num_stages, num_micro = num[0], num[0] * (num[1] // num[0])
    how, cost = pipeline("zb-h1", chunks, overlap=True), costs(forward, inputs, weights)
    assert idle(how, num_stages, num_micro, cost) == [(num_stages - 1) * (forward + inputs - weights)] * num_stages
    if chunks == 1:
        waits = idle(pipeline("zb-h1"), num_stages, num_micro, cost)
        assert waits == [(num_stages - 1) * (forward + inputs)] * num_stages


@given(num=full, each=cost)
def test_zb_v_idles_only_until_the_first_forward_arrives(num: tuple[int, int], each: int) -> None:
    """F = I = W: no stage waits between its passes, and stage s begins s F after the first (arXiv 2401.10241, section
    6), so the step is (P - 1) F longer than the passes of a stage."""
    num_stages, num_micro = num
    waits = idle(pipeline("zb-v", 2, overlap=True), num_stages, num_micro, costs(each, each, each))
    assert waits == [(num_stages - 1) * each] * num_stages


@given(num=full, forward=cost, weights=cost, saved=st.integers(0, 9))
def test_dualpipe_v_waits_as_deepseek_says(num: tuple[int, int], forward: int, weights: int, saved: int) -> None:
    """(PP / 2 - 1) (F&B + B - 3 W) for PP = 2 P chunks (README of github.com/deepseek-ai/DualPipe), F&B being the time
    of two passes that overlap; on the last stage, where one pair does not overlap and the others wait no longer."""
    num_stages, num_micro = num
    weights = min(weights, forward)
    overlapped = 2 * forward + weights - min(saved, weights)
    how = pipeline("dualpipev", 2, overlap=True)
    waits = idle(how, num_stages, num_micro, costs(forward, forward, weights, overlapped))
    assert waits[-1] == (num_stages - 1) * (overlapped + forward - 2 * weights)
    if overlapped == 2 * forward + weights:
        assert waits == [waits[-1]] * num_stages
