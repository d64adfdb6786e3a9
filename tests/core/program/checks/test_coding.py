"""Findings of the checker for messages that are encoded or decoded wrongly."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.core.codecs import Codec, Plain, parse_codec
from simfrontier.core.program import Call, Compute, Op, Schedule
from tests.core.plan.grids import megatron, schedule_of
from tests.core.program.mutations import changed, dropped, lines, mutated, says, where, with_tensor

OTHER = parse_codec("zfp:16")
MPC = parse_codec("mpc:bf16:1.03")


def coded(per_hop: bool = False, policy: str = "naive-zfp:8", data: str = "ddp") -> Schedule:
    """Two-way tensor parallelism, two stages and two replicas, everything coded, two micro-batches."""
    options = megatron(2, 2, data=data, compression=policy, compress_from=0, compress_per_hop=per_hop)
    return schedule_of(options, 8, micros=2)


@pytest.mark.parametrize("per_hop", [False, True])
def test_the_schedules_themselves_are_clean(per_hop: bool) -> None:
    for data in ("ddp", "zero1", "zero3"):
        assert lines(coded(per_hop, "MZHybrid:8", data)) == []


# ── at every hop ──

AT_HOPS = "a gather or reduction by ring in int8, int4, zfp or mpc"
SUMMED = where("all_reduce", "activation")


@pytest.mark.parametrize("via", ["library", "tree", "direct"])
def test_only_a_ring_codes_at_every_hop(via: str) -> None:
    wrong = mutated(coded(True), changed(SUMMED, via=via))
    says(wrong, "placements: ", "all_reduce activation", f"expected {AT_HOPS}; found all_reduce by {via} in zfp:8")


def test_a_coded_all_reduce_has_to_be_one_at_every_hop() -> None:
    wrong = mutated(coded(True), changed(SUMMED, per_hop=False))
    says(wrong, "placements: ", "expected an all_reduce in fp64, fp32, fp16 or bf16; found codec zfp:8")
    says(wrong, "placements: ", "expected codec bf16, the type of x.partial; found codec zfp:8")


# ── at once ──


def test_pieces_that_wait_for_their_sum_are_stacked() -> None:
    wrong = with_tensor(coded(), "x.got0", stacked=())
    says(wrong, "placements: ", "expected x.got0 stacked over tensor; found not stacked")
    says(wrong, "placements: ", "expected x.got0 stacked: contributions side by side; found not stacked")


@pytest.mark.parametrize("kind", ["reduce_scatter", "all_gather"])
def test_both_ends_have_the_codec_of_the_op(kind: str) -> None:
    wrong = mutated(
        coded(), changed(where(kind, "activation", touches=f"x.sent{int(kind == 'all_gather')}"), codec=OTHER)
    )
    end = int(kind == "all_gather")
    for name in (f"x.sent{end}", f"x.got{end}"):
        says(wrong, f"{kind} activation", f"expected {name} coded as zfp:16; found coded as zfp:8")


def test_what_is_coded_is_no_operand_of_anything_else() -> None:
    """A message that is used without being decoded."""
    schedule = coded()
    (reads,) = {
        op.reads for _, op in schedule.roles[0].instances() if op.kind == "decode" and op.reads[0].name == "x.got1"
    }

    def edit(call: Call, op: Op) -> list[Op]:
        if isinstance(op, Compute) and op.kind == "norm" and op.name == "ln1" and op.reads[0].name == "x":
            return [replace(op, reads=(reads[0], *op.reads[1:]))]
        return [op]

    wrong = mutated(schedule, edit)
    assert wrong != schedule
    says(wrong, "placements: ", "expected x.got1 not coded; found coded as zfp:8")


def test_a_decode_is_of_something_coded_and_makes_something_plain() -> None:
    schedule = coded()
    says(with_tensor(schedule, "x.got1", codec=None), "decode activation", "expected x.got1 coded; found not coded")
    says(with_tensor(schedule, "x.sent1", codec=None), "encode activation", "expected x.sent1 coded; found not coded")


# ── between stages ──


@pytest.mark.parametrize("codec", [OTHER, MPC, Plain("bf16")])
def test_an_exchange_has_the_codec_of_its_tensors(codec: Codec) -> None:
    wrong = mutated(coded(), changed(where("exchange"), codec=codec))
    for name in ("x.exchange.sent", "x.exchange.got", "d.x.exchange.sent", "d.x.exchange.got"):
        says(wrong, "placements: ", f"expected {name} coded as {codec}; found coded as zfp:8")


def test_what_comes_is_decoded_and_what_goes_is_encoded() -> None:
    """Without the one, nobody writes the values that the next stage reads; without the other, what is sent."""
    schedule = coded()
    for kind, unwritten in (("decode", "x"), ("encode", "x.exchange.sent")):
        wrong = mutated(schedule, dropped(where(kind, label="exchange")))
        parts = [line for line in lines(wrong) if f"{unwritten} " in line or f"{unwritten}," in line]
        assert parts, lines(wrong)
