"""Exchanges by hand: two stages that swap values, on every transport that lives in one process; replayed and traced."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.codecs import Plain
from simfrontier.core.program import Call, Compute, Exchange, Mesh, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.placement import Placement
from simfrontier_real.ops.executor import StepTimes
from simfrontier_real.ops.kernels import MODEL_KERNELS
from simfrontier_real.ops.moves import LOCAL_KERNELS
from simfrontier_real.ops.programs import RankContext, programs_of
from simfrontier_real.ranks.loopback import RanksInOneProcess
from simfrontier_real.replay.record import aligned, clocked, trace_of
from simfrontier_real.verify.verdict import scheduled_bytes
from tests.real.lowerings import lowered_of
from tests.real.together import bytes_sent, contexts_of, executing

MICRO = 2
MESH = Mesh((("stage", 2), ("data", 2)))
HELD = ("x", "y", "z", "w", "out.first", "out.last")  # persistent, so that a test can put values in and look at them


def value(name: str) -> Tensor:
    return Tensor(
        name=name,
        shape=(4, 3),
        dtype="fp64",
        role="activation",
        placement=Placement((("data", 0),)),
        dims=("b", "h"),
        per_micro=True,
        persistent=name in HELD,
    )


def exchange(name: str, **operands: tuple[str, ...]) -> Exchange:
    refs = {key: tuple(map(Ref, names)) for key, names in operands.items()}
    return Exchange(name=name, axis="stage", ends=(0, 1), codec=Plain("fp64"), comm="stage", blocking=True, **refs)


def add(name: str, *reads: str) -> Compute:
    return Compute(kind="add", name=name, reads=tuple(map(Ref, reads)), writes=(Ref(name),))


FORWARD = exchange("forward", src=("x", "y"), dst=("x.in", "y.in"))
SWAP = exchange("swap", src=("z",), dst=("z.in",), back_src=("w.sum",), back_dst=("w.in",))


def swapping(first: tuple[Op, ...] = (), last: tuple[Op, ...] = ()) -> Schedule:
    """Stage 0 sends x and y; stage 1 makes w.sum = x + y + w; then z goes forward and w.sum back in one exchange."""
    sums = add("w.sum", "x.in", "y.in", "w")
    programs = (
        first or (FORWARD, SWAP, add("out.first", "w.in", "z")),
        last or (FORWARD, sums, SWAP, add("out.last", "z.in", "w.sum")),
    )
    roles = tuple(
        Role(f"stage {number}", tuple(Call("micro", 0, micro, ops) for micro in range(MICRO)), at=("stage", number))
        for number, ops in enumerate(programs)
    )
    names = (*HELD, "x.in", "y.in", "z.in", "w.in", "w.sum")
    tensors = {name: value(name) for name in names}
    return Schedule(mesh=MESH, tensors=tensors, roles=roles, pools={}, meta={})


def fill(sites: list[RankContext]) -> dict[Ref, np.ndarray]:
    """Whole values of what is held, of which every rank gets its half of the samples."""
    numbers = np.random.default_rng(0)
    whole = {Ref(name, 0, micro): numbers.normal(size=(4, 3)) for name in HELD[:4] for micro in range(MICRO)}
    for site in sites:
        half = slice(2 * site.at["data"], 2 * site.at["data"] + 2)
        site.buffers.by_ref.update({ref: values[half] for ref, values in whole.items() if ref in site.touched})
    return whole


def ranks_of(
    made: Schedule, lowered: bool = False
) -> tuple[RanksInOneProcess, list[RankContext], dict[Ref, np.ndarray]]:
    sites = contexts_of(made)
    whole = fill(sites)
    return executing(sites, {**LOCAL_KERNELS, **MODEL_KERNELS}, lowered_of(made) if lowered else None), sites, whole


@pytest.mark.parametrize("lowered", [False, True], ids=["native", "lowered"])
def test_what_is_sent_arrives_at_the_partner_with_the_same_other_coordinates(lowered: bool) -> None:
    together, sites, whole = ranks_of(swapping(), lowered)
    for _ in range(2):  # nothing of the first step is left that could serve the second
        together.run_step()
        for site in sites:
            name = ("out.first", "out.last")[site.at["stage"]]
            half = slice(2 * site.at["data"], 2 * site.at["data"] + 2)
            for micro in range(MICRO):
                x, y, z, w = (whole[Ref(each, 0, micro)][half] for each in HELD[:4])
                assert np.allclose(site.buffers[Ref(name, 0, micro)], x + y + w + z, rtol=1e-15)


def test_two_exchanges_in_crossed_order_get_stuck() -> None:
    """Each stage waits in the exchange in which the other one is not yet; the table of what runs names both."""
    back = replace(exchange("back", back_src=("w",), back_dst=("w.in",)), comm="back")
    together, _, _ = ranks_of(swapping(first=(FORWARD, back), last=(back, FORWARD)))
    with pytest.raises(
        SimfrontierError,
        match=r"^stuck: rank 0, .* of stage 0, .*exchange forward.*; rank 2, .* of stage 1, .*exchange back",
    ):
        together.run_step()


def test_only_the_ends_that_send_count_bytes() -> None:
    """Stage 0 sends x, y and z, stage 1 only w.sum: of 2 × 3 numbers of 8 bytes each, twice."""
    made = swapping()
    programs = programs_of(made)
    expected = [MICRO * 3 * 48, MICRO * 48]
    assert [scheduled_bytes(made, program) for program in programs.of_roles] == expected
    together, _, _ = ranks_of(made)
    together.run_step()
    assert bytes_sent(together) == [expected[0]] * 2 + [expected[1]] * 2


def test_a_trace_starts_an_exchange_when_both_ends_are_ready() -> None:
    """Stage 0 (ranks 0, 1) has 3 ops a micro-batch, stage 1 has 4. Both are ready for op i at i and 2 i."""
    made = swapping()
    programs = programs_of(made)
    ranks = []
    for rank in range(4):
        count = programs.of(rank).num_ops
        pace = 1.0 if rank < 2 else 2.0
        ready = tuple(pace * index for index in range(count))
        times = StepTimes(0.0, ready, tuple(at + 0.5 for at in ready))
        ranks.append(clocked([times], 0.0, "a" if rank % 2 else "b", {0: 96, 1: 48}))
    (_, first, _), (_, last, _) = (aligned(made, programs, ranks)[rank] for rank in (0, 2))
    # ops of stage 0: forward swap add, of stage 1: forward add swap add; twice
    assert first[0].tolist() == [0.0, 4.0, 2.0, 8.0, 12.0, 5.0]
    assert last[0].tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0]
    trace = trace_of(made, programs, ranks, "by hand", {})
    assert [len(spans) for spans in trace.spans] == [6, 6, 8, 8]
    forward, swap, _ = trace.spans[0][:3]
    assert (forward.kind, forward.axes, forward.level, forward.message_bytes) == ("exchange", "stage", "intra_node", 96)
    assert (forward.num_bytes, swap.num_bytes) == (96.0, 48.0)
    assert trace.spans[2][0].num_bytes == 0.0  # stage 1 only receives it
