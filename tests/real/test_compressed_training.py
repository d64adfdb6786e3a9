"""Compressed messages in three dimensions, trained for real in one process: what is lossless loses nothing, what is
lossy loses what its codec says, and what cannot be sent is refused before it is."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.codecs import parse_codec
from simfrontier.core.collectives import message_bytes
from simfrontier.core.program import Collective, Exchange, Schedule, check, expand
from simfrontier_real.ops.arrays import numpy_backend
from simfrontier_real.ops.codecs import decode, encode
from simfrontier_real.ops.codecs.per_hop import PerHopCoder
from simfrontier_real.ops.moves import in_range
from simfrontier_real.ops.programs import programs_of
from simfrontier_real.ranks.session import LoadedSchedule
from simfrontier_real.train.train import run_in_one_process, train_in_one_process
from simfrontier_real.train.training_settings import Adam, TrainingResult
from simfrontier_real.verify.verdict import verdict_of, why_inexact
from tests.real.grids import megatron
from tests.real.lowerings import lowered_of
from tests.real.schedules import distance, loss_distance, training, unsharded
from tests.real.together import Training

STEPS = 2
INT = "dp=int8:64, tp=int8:64, pp=int4:64, zero=int8:64"
DIFFERS = {"naive-zfp:8": 0.3, "naive-zfp:16": 1e-2, "naive-zfp:24": 1e-4, "ZHybrid:8/16": 5e-2, INT: 0.1}


def made(compression: str, data: str = "zero1", **keys: Any) -> Schedule:
    """Two-way tensor parallelism × two stages × two replicas, eight ranks, messages of any size coded."""
    keys = {"precision": "fp32", "compress_from": 0, **keys}
    return megatron(2, 2, 2, data=data, compression=compression, **keys).schedule


def trained(schedule: Schedule, **how: Any) -> TrainingResult:
    assert str(check(schedule)) == "no findings"
    return train_in_one_process(schedule, training(STEPS), **how)


@cache
def trained_by(compression: str) -> TrainingResult:
    return trained(made(compression))


@pytest.mark.parametrize("data", ["zero1", "ddp", "zero3"])
def test_lossless_compression_changes_no_bit(data: str) -> None:
    plain, coded = made("none", data), made("naive-mpc", data)
    assert why_inexact(coded, expand(coded, coded.roles[0])) == ""
    ours, theirs = trained(coded), trained(plain)
    assert ours.losses == theirs.losses
    assert all(np.array_equal(ours.weights[key], theirs.weights[key]) for key in theirs.weights)


@pytest.mark.parametrize("compression", DIFFERS)
def test_lossy_compression_ends_as_far_off_as_its_codecs_are(compression: str) -> None:
    """Eight bits more per value make a 256th of the error; limits are some three times what was seen."""
    schedule = made(compression)
    assert why_inexact(schedule, expand(schedule, schedule.roles[0])).startswith("moves are coded as ")
    ours, theirs = trained_by(compression), unsharded(schedule, training(STEPS), "fp32")
    assert 1e-7 < distance(ours.weights, theirs.weights) < DIFFERS[compression]
    assert loss_distance(ours.losses, theirs.losses) < DIFFERS[compression]
    if compression == INT:
        assert trained(schedule).losses == ours.losses  # reproducible


@pytest.mark.parametrize("compression", ["naive-mpc", "naive-zfp:16", INT])
def test_messages_are_as_long_as_the_schedule_says_or_as_their_values(compression: str) -> None:
    schedule = made(compression, compress_from=1024)
    together = Training(schedule, training(1))
    together.train_step(0)
    for each in together.ranks:
        program, tensors, mesh = each.context.program, schedule.tensors, schedule.mesh
        for index, result in each.step.message_bytes.items():
            op = program.ops[index]
            if isinstance(op, Collective):
                due = message_bytes(op, tensors, mesh)
            else:
                due = sum(op.codec.wire_bytes(tensors[ref.name].local_elements(mesh)) for ref in program.reads[index])
            if op.codec.is_measured:  # normal numbers shrink by a tenth, as is taken; zeros by more
                assert 0.03 * due <= result <= 1.2 * due
            else:
                assert result == due


@pytest.mark.parametrize("compression", ["naive-zfp:8", "naive-zfp:16", "naive-zfp:24", INT])
def test_coding_per_hop_makes_copies_differ_by_about_the_codecs_error(compression: str) -> None:
    """The rank that sends a piece keeps it as it was, the others have it as it came: what all should hold alike is
    apart, the less the more bits there are."""
    schedule = made(compression, compress_per_hop=True)
    lowered = lowered_of(schedule, channels=1, slices=1)
    ours, theirs = trained(schedule, lowered=lowered), unsharded(schedule, training(STEPS), "fp32")
    assert (
        0.0
        < ours.copy_difference
        < {"naive-zfp:8": 0.2, "naive-zfp:16": 2e-3, "naive-zfp:24": 1e-5}.get(compression, 0.1)
    )
    assert distance(ours.weights, theirs.weights) < 1.5 * DIFFERS[compression]


@pytest.mark.parametrize(
    ("policy", "sizes", "data"),
    [
        ("dp=zfp:8", (1, 1, 4), "ddp"),
        ("naive-zfp:16", (2, 1, 2), "zero1"),
        ("dp=int8:64, zero=int8:64", (1, 1, 4), "zero1"),
    ],
)
def test_coding_per_hop_stays_within_the_bounds_of_the_verdict(
    policy: str, sizes: tuple[int, int, int], data: str
) -> None:
    keys = {"compression": policy, "compress_from": 0, "compress_per_hop": True}
    schedule = megatron(*sizes, data=data, precision="fp32", **keys).schedule
    loaded = LoadedSchedule(name="a", path=Path("a"), schedule=schedule, programs=programs_of(schedule), digest="")
    how = replace(training(STEPS), adam=Adam(epsilon=1e-5))
    given, clocks = run_in_one_process(schedule, how, lowered=lowered_of(schedule, channels=1, slices=1))
    result = verdict_of(loaded, given, clocks, how, unsharded(schedule, how, "fp32"))
    assert result.is_good and result.copies_differ > 0, result.missed


def test_the_bytes_that_a_ring_sends_coded_are_the_schedules(monkeypatch: pytest.MonkeyPatch) -> None:
    """One message of n elements over 4 ranks: 6 pieces of n/4 from each (2 · 3 steps), each coded by itself."""
    schedule = megatron(
        1, 1, 4, precision="fp32", compression="dp=zfp:8", compress_from=4096, compress_per_hop=True, grad_accum=1
    ).schedule
    hops = {op for call in schedule.roles[0].calls for op in call.ops if isinstance(op, Collective) and op.per_hop}
    assert {(op.kind, str(op.codec), op.via) for op in hops} == {("all_reduce", "zfp:8", "ring")}
    sent: list[int] = []
    code = PerHopCoder.sent

    def counted(self: PerHopCoder, values: Any) -> Any:
        line = code(self, values)
        sent.append(int(line.shape[0]))
        assert line.shape[0] == self.codec.wire_bytes(int(values.shape[0]))
        return line

    monkeypatch.setattr(PerHopCoder, "sent", counted)
    train_in_one_process(schedule, training(1), lowered=lowered_of(schedule, channels=1, slices=1))
    due = 0
    for call, op in schedule.roles[0].instances():
        if isinstance(op, Collective) and op.per_hop:
            total = sum(schedule.tensors[ref.name].local_elements(schedule.mesh) for ref in op.src)
            assert total % 4 == 0, call
            due += 4 * 6 * op.codec.wire_bytes(total // 4)
    assert sum(sent) == due > 0


def test_what_codes_per_hop_needs_explicit_transfers_and_a_codec_of_known_length() -> None:
    with pytest.raises(InputError, match=r"per hop \(zfp:8\), which the library's collectives cannot do; allowed: -"):
        train_in_one_process(made("naive-zfp:8", compress_per_hop=True), training(1))
    schedule = made("naive-mpc", compress_per_hop=True)
    with pytest.raises(InputError, match="of no fixed length; allowed: zfp, int8 or int4 per hop, or a plan"):
        train_in_one_process(schedule, training(1), lowered=lowered_of(schedule))


@pytest.mark.parametrize("compression", ["naive-zfp:16", INT])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_what_is_not_finite_never_spoils_a_message(compression: str, bad: float) -> None:
    """An infinity in one weight becomes one in the activations that are sent: nobody gets them."""
    schedule = made(compression)
    together = Training(schedule, training(1))
    for each in together.ranks:
        each.load(0)
    buffers = together.ranks[0].context.buffers
    first = next(ref for ref in buffers.by_ref if ref.name.endswith("4h_to_h.weight"))
    buffers[first][0] = bad
    with pytest.raises(SimfrontierError, match=r"codec (zfp:16|int8:64): \d+ of \d+ numbers are not finite in"):
        together.run_step()


def test_numbers_at_the_top_of_their_range_stay_finite() -> None:
    """8 bits per value are off by a quarter of a block's largest: of 65,504 that is beyond what FP16 has."""
    values = np.random.default_rng(1).uniform(5e4, 65504.0, (1, 400)).astype(np.float16)
    codec = parse_codec("zfp:8")
    wide = decode(numpy_backend(), encode(numpy_backend(), values, codec), codec, 400, "fp32")
    assert float(wide.max()) > 65520.0
    assert float(in_range(numpy_backend(), wide, codec, "fp16").max()) == 65504.0


def test_stages_code_what_they_exchange_both_ways() -> None:
    schedule = made("pp=zfp:16")
    ops = [op for role in schedule.roles for call in role.calls for op in call.ops]
    assert {str(op.codec) for op in ops if isinstance(op, Exchange)} == {"zfp:16"}
    assert {str(op.codec) for op in ops if isinstance(op, Collective)} == {"fp32"}
    ours, theirs = trained(schedule), unsharded(schedule, training(STEPS), "fp32")
    assert 1e-7 < distance(ours.weights, theirs.weights) < 1e-2
