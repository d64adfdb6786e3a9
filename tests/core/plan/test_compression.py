"""Compression policies by parallel dimension: their codecs, valid plans, and bytes by hand."""

from __future__ import annotations

from typing import Any

import pytest

from simfrontier.core.codecs import Plain
from simfrontier.core.collectives import exchanged_bytes
from simfrontier.core.collectives.volume import wire_of
from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.plan.compression import DIMENSIONS, compression_of, written
from simfrontier.core.plan.zero import LatticeOptions
from simfrontier.core.program import Collective, Compute, Exchange, Schedule, check
from tests.core.plan.grids import megatron, other, schedule_of

# ── policies ──


def meaning(text: str, **keys: Any) -> dict[str, str]:
    """The codec of each dimension."""
    made = compression_of(text, **keys)
    return {dimension: str(made.codec(dimension) or "plain") for dimension in DIMENSIONS}


def two(dp: str, others: str) -> dict[str, str]:
    """One codec for gradients, and one for everything else."""
    return {"dp": dp, "tp": others, "pp": others, "zero": others}


@pytest.mark.parametrize(
    ("text", "codecs"),
    [
        ("none", two("plain", "plain")),
        ("naive-zfp", two("zfp:8", "zfp:8")),
        ("naive-mpc", two("mpc", "mpc")),
        ("MZHybrid", two("zfp:8", "mpc")),
        ("ZHybrid", two("zfp:8", "zfp:16")),
        ("ZHybrid:4/24", two("zfp:4", "zfp:24")),
        ("tp=mpc:fp16:1.2,pp=plain", two("plain", "plain") | {"tp": "mpc:fp16:1.2"}),
        (
            "dp=int4:64, tp=fp32, pp=zfp:8, zero=mpc",
            {"dp": "int4:64", "tp": "fp32", "pp": "zfp:8", "zero": "mpc"},
        ),
    ],
)
def test_what_a_policy_means(text: str, codecs: dict[str, str]) -> None:
    assert meaning(text) == codecs
    assert str(compression_of(text)) == ", ".join(f"{dimension} {codec}" for dimension, codec in codecs.items())
    assert written(text) == text


# ── what they make of plans ──

DATA: dict[str, Any] = {
    **{name: name for name in ("ddp", "zero1", "zero3")},
    "lattice": LatticeOptions(
        family="lattice", weight=("package",), accumulator=("package",), optimizer=("data", "package")
    ),
}
POLICIES = (
    "naive-zfp:8",
    "naive-mpc",
    "MZHybrid:16",
    "ZHybrid:8/16",
    "dp=int4:64, tp=int8:64, zero=int8:32",
    "tp=fp32, pp=zfp:24",
)
GRIDS: dict[str, dict[str, Any]] = {
    "tensor 2": {"tensor": 2},
    "replicas alone": {},
    "stages 2": {"pipeline": 2},
    "tensor 2 stages 2 gpipe": {"tensor": 2, "pipeline": 2, "order": "gpipe"},
    "tensor 2 stages 2 1f1b": {"tensor": 2, "pipeline": 2, "overlap_exchange": True},
    "tensor 2 stages 2 interleaved": {"tensor": 2, "pipeline": 2, "order": "interleaved", "chunks": 2},
    "cut sequence": {"tensor": 2, "sequence_parallel": True, "overlap_gradients": True},
}
OF_PURPOSE = {
    "gradient": "dp",
    "step_reduction": "dp",
    "weight_gather": "zero",
    "publish": "zero",
    "activation": "tp",
    "input_gradient": "tp",
    "input_gather": "tp",
}


LEAST = 512  # bytes of a message from which on it is coded


def made(policy: str, data: str, grid: str, per_hop: bool) -> Schedule:
    """Of bf16 on 16 ranks, four in a node of two packages."""
    base: dict[str, Any] = {"compress_from": LEAST, "compression": policy, "compress_per_hop": per_hop}
    options = megatron(**base | GRIDS[grid] | {"data": DATA[data]})
    return schedule_of(options, 16, shape=other(num_layers=2 * options.chunks), micros=2, node=(4, 2))


def is_as_its_policy_says(schedule: Schedule, policy: str, per_hop: bool) -> int:
    """Every collective and exchange carries the codec of its dimension where it is large enough, and nothing else is
    coded; gives the number of those that are."""
    compression, tensors, mesh = compression_of(policy), schedule.tensors, schedule.mesh
    coded = 0
    for op in {op.number: op for role in schedule.roles for _, op in role.instances()}.values():
        if not isinstance(op, Collective | Exchange):
            continue
        pairs = [(tensors[a.name], tensors[b.name]) for a, b in zip(op.reads, op.writes, strict=False)]
        dtype = pairs[0][0].dtype
        size = min(max(a.local_elements(mesh), b.local_elements(mesh)) * DTYPE_BYTES[dtype] for a, b in pairs)
        is_of_loss = pairs[0][0].name.startswith("loss.")  # a maximum, and sums in FP32
        dimension: Any = ("" if op.name == "tied" else "pp") if isinstance(op, Exchange) else OF_PURPOSE.get(op.name)
        wanted = compression.codec(dimension) if dimension and not is_of_loss else None
        wanted = None if wanted is not None and wanted.is_opaque and size < LEAST else wanted
        wanted = Plain(dtype) if wanted is None else wanted.on(dtype)
        assert op.codec == wanted, (op.name, op.kind, pairs[0][0].name)
        is_coded = wanted.name != dtype
        coded += is_coded
        if isinstance(op, Exchange):
            assert {each.codec for pair in pairs for each in pair} == ({wanted} if is_coded else {None})
            continue
        at_hops = is_coded and per_hop and wanted.is_opaque
        assert (op.per_hop, op.via) == (at_hops, "ring" if at_hops else "library")
        assert {each.codec for pair in pairs for each in pair} == ({wanted} if is_coded and not at_hops else {None})
        assert not (op.kind == "all_reduce" and wanted.is_opaque and not at_hops)
    return coded


@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("data", DATA)
def test_every_plan_is_sound_and_codes_what_its_policy_says(data: str, grid: str) -> None:
    """Each policy in turn, at once and at every hop."""
    turn = list(DATA).index(data) + list(GRIDS).index(grid)
    policy, per_hop = POLICIES[turn % len(POLICIES)], turn // 2 % 2 == 1
    schedule = made(policy, data, grid, per_hop)
    assert str(check(schedule)) == "no findings"
    coded = is_as_its_policy_says(schedule, policy, per_hop)
    assert coded or (policy == POLICIES[-1] and grid == "replicas alone")


# ── bytes ──

BY_HAND = "dp=zfp:8, tp=zfp:8.25, pp=mpc, zero=zfp:16"


def found(schedule: Schedule, kind: str, tensor: str) -> int:
    """Bytes of one tensor in the first collective that reads or writes it."""
    for role in schedule.roles:
        for _, op in role.instances():
            if isinstance(op, Collective) and op.kind == kind and tensor in {ref.name for ref in op.writes + op.reads}:
                data, scales = wire_of(op, schedule.tensors[tensor], schedule.mesh)
                return data + scales
    raise AssertionError(f"no {kind} of {tensor}")


def of_twenty(data: str, **keys: Any) -> Schedule:
    """Two-way tensor parallelism, two stages, five replicas."""
    options = megatron(2, 2, data=data, compression=BY_HAND, compress_from=keys.pop("least", 0), **keys)
    return schedule_of(options, 20, micros=2)


def test_bytes_by_hand_at_once() -> None:
    """tp: 24 · 48 = 1152, two pieces of 576, each 144 blocks of 33 bits = 4752 bits = 74.25 words: 75 · 8 B = 600.
    dp: 144 · 48 / 2 = 3456 of qkv, five pieces of 692 with filling: 173 blocks of 32 bits = 86.5 words: 87 · 8 B = 696.
    zero: the same with 173 blocks of 64 bits = 1384 B. pp: 1152 values of 2 B at 1.03: 2236.9 B."""
    schedule = of_twenty("zero1")
    assert found(schedule, "reduce_scatter", "attention.out.sent0") == 2 * 600
    assert found(schedule, "all_gather", "attention.out.got1") == 2 * 600
    assert found(schedule, "reduce_scatter", "qkv.weight.grad.reduced.sent0") == 5 * 696
    assert found(schedule, "all_gather", "qkv.weight.got0") == 5 * 1384
    sizes = {
        exchanged_bytes(op, schedule.tensors, schedule.mesh)
        for _, op in schedule.roles[0].instances()
        if isinstance(op, Exchange)
    }
    assert sizes == {(2237, 0), (2237, 2237), (0, 2237)}


def test_bytes_by_hand_at_every_hop() -> None:
    """A ring cuts into as many pieces and fills the last one up: the same bytes; in one piece, 1152 values would be 288
    blocks of 33 bits = 148.5 words: 1192 B."""
    schedule = of_twenty("ddp", compress_per_hop=True)
    assert found(schedule, "all_reduce", "attention.out") == 2 * 600
    assert found(schedule, "all_reduce", "qkv.weight.grad.reduced") == 5 * 696
    assert not [op for _, op in schedule.roles[0].instances() if isinstance(op, Compute) and op.kind == "decode_sum"]
    gathered = of_twenty("zero1", compress_per_hop=True)
    assert found(gathered, "all_gather", "qkv.weight.mixed0") == 5 * 1384
