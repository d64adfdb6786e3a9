"""Compression of messages by parallel dimension: what policies mean, what they refuse, and what they make of plans."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.codecs import Plain, parse_codec
from simfrontier.collectives import exchanged_bytes
from simfrontier.collectives.volume import wire_of
from simfrontier.dtypes import DTYPE_BYTES
from simfrontier.errors import InputError
from simfrontier.plan.compression import DIMENSIONS, compression_of, parse_policy, written
from simfrontier.plan.zero import BucketOptions, LatticeOptions
from simfrontier.schedule import Collective, Compute, Exchange, Schedule, check
from tests.invoke import TOY, invoke, said_of
from tests.plan.grids import megatron, other, schedule_of

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
        ("naive-zfp:16", two("zfp:16", "zfp:16")),
        ("naive-mpc", two("mpc", "mpc")),
        ("MZHybrid", two("zfp:8", "mpc")),
        ("MZHybrid:24", two("zfp:24", "mpc")),
        ("ZHybrid", two("zfp:8", "zfp:16")),
        ("ZHybrid:4/24", two("zfp:4", "zfp:24")),
        ("ZHybrid: 4 / 24 ", two("zfp:4", "zfp:24")),
        ("dp=zfp8", two("zfp:8", "plain")),
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


@pytest.mark.parametrize(
    ("text", "codecs"),
    [
        ("none", two("fp32", "fp32")),
        ("naive-mpc", two("mpc:fp32", "mpc:fp32")),
        ("MZHybrid:8", two("zfp:8", "mpc:fp32")),
        ("tp=mpc:fp16, zero=bf16, pp=mpc:1.5", {"dp": "fp32", "tp": "mpc:fp16", "pp": "mpc:fp32:1.5", "zero": "bf16"}),
    ],
)
def test_messages_of_fp32(text: str, codecs: dict[str, str]) -> None:
    """What is not coded is cast, and MPC is of what was widened; who names a type keeps it."""
    assert meaning(text, widen=True) == codecs


def test_a_table_is_written_as_text() -> None:
    assert written({"dp": "zfp:8", "zero": "plain"}) == "dp=zfp:8, zero=plain"
    assert written({}) == "none"
    assert meaning(written({"dp": "zfp:8", "zero": "plain"})) == two("zfp:8", "plain")


def test_only_what_has_to_be_decoded_is_coded_at_every_hop() -> None:
    from simfrontier.plan.moves import Hop

    made = compression_of("dp=fp32, tp=zfp:8", 7, per_hop=True)
    assert made.hop(Hop(("a",)), "dp") == Hop(("a",), Plain("fp32"))
    assert made.hop(Hop(("a",)), "tp") == Hop(("a",), parse_codec("zfp:8"), least_bytes=7, per_hop=True)
    assert made.hop(Hop(("a",)), "pp") == Hop(("a",))


TABLE = "or a table of dp, tp, pp and zero"
RATE = "write zfp:RATE with 2.25 to 32 bits per value, e.g. zfp:16"
WRONG = [
    ("naive-zpf", f"compression 'naive-zpf': did you mean \"naive-zfp\"?, {TABLE}"),
    ("mzhybrid:8", f"compression 'mzhybrid:8': did you mean \"MZHybrid\"?, {TABLE}"),
    (
        "best",
        f"compression 'best': allowed: MZHybrid, ZHybrid, naive-mpc, naive-zfp, none, {TABLE}",
    ),
    ("none:8", "compression 'none:8': none takes no rate, e.g. none"),
    ("naive-mpc:1.1", "compression 'naive-mpc:1.1': naive-mpc takes no rate, e.g. naive-mpc"),
    (
        "naive-zfp:8/16",
        "compression 'naive-zfp:8/16': naive-zfp takes one rate, that of ZFP, e.g. naive-zfp:8",
    ),
    (
        "ZHybrid:8",
        "compression 'ZHybrid:8': ZHybrid takes two rates, of gradients and of everything else, e.g. ZHybrid:8/16",
    ),
    ("naive-zfp:", f"codec 'zfp:': {RATE}"),
    ("ZHybrid:8/2", f"codec 'zfp:2': {RATE}"),
    ("MZHybrid:nan", f"codec 'zfp:nan': {RATE}"),
    ("zerro=zfp:8", "compression 'zerro=zfp:8': 'zerro': did you mean \"zero\"?"),
    ("data=zfp:8", "compression 'data=zfp:8': 'data': allowed: dp, pp, tp, zero"),
    ("dp=zfp:8,,tp=mpc", "compression 'dp=zfp:8,,tp=mpc': '': allowed: dp, pp, tp, zero"),
    ("dp=zip:8", "codec 'zip:8': did you mean \"zfp\"?"),
    ("tp=int8", "codec 'int8': write int8:BLOCK with BLOCK elements per scale, e.g. int8:6144"),
]


@pytest.mark.parametrize(("text", "message"), WRONG)
def test_each_wrong_text_is_one_line(text: str, message: str) -> None:
    for read in (compression_of, written):
        with pytest.raises(InputError) as caught:
            read(text)
        assert str(caught.value) == message


@given(st.text(max_size=20) | st.builds("{}:{}".format, st.sampled_from(["ZHybrid", "naive-zfp", "none"]), st.text()))
def test_any_text_is_a_policy_or_one_line(text: str) -> None:
    try:
        codecs = parse_policy(text)
    except InputError as error:
        assert "\n" not in str(error)
        return
    assert set(codecs) == set(DIMENSIONS)


MEGATRON = ["plans.zero3.family=megatron", "plans.zero3.tensor=2"]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        *((f"{text!r}", message) for text, message in WRONG[::4]),
        (
            "3",
            "compression: got 3, allowed: one of none, naive-zfp, naive-mpc, MZHybrid, ZHybrid, or a table of codecs",
        ),
        ("{dp=8}", 'compression.dp: got 8, allowed: a codec, such as "zfp:16", or "plain"'),
        ('{data="zfp:8"}', "compression 'data=zfp:8': 'data': allowed: dp, pp, tp, zero"),
        ('{dp="zfp:99"}', f"codec 'zfp:99': {RATE}"),
    ],
)
def test_a_scenario_says_so_of_its_plan(tmp_path: Path, value: str, message: str) -> None:
    got = said_of([*MEGATRON, f"plans.zero3.compression={value}"], tmp_path)
    has_key = message.startswith(("compression:", "compression."))
    assert got == f"plans.zero3.{message if has_key else f'compression: {message}'}"


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("compress_from=-1", "compress_from: got -1, allowed: at least 0"),
        ("message_dtype=fp16", 'message_dtype: got "fp16", allowed: "model" or "fp32"'),
        ("compress_per_hop=1", "compress_per_hop: got 1, allowed: true or false"),
    ],
)
def test_a_scenario_refuses_other_keys_of_it(tmp_path: Path, setting: str, message: str) -> None:
    assert said_of([*MEGATRON, f"plans.zero3.{setting}"], tmp_path).startswith(f"plans.zero3.{message}")


@pytest.mark.parametrize("value", ["MZHybrid:8", '{dp="zfp:8", pp="mpc"}', "{}"])
def test_a_scenario_takes_both_forms(tmp_path: Path, value: str) -> None:
    words = [*MEGATRON, f"plans.zero3.compression={value}", "plans.zero3.compress_from=0", "uncertainty.samples=0"]
    given_words = [word for setting in words for word in ("--set", setting)]
    ran = invoke("run", TOY, "--out", tmp_path / "out", "--plans", "zero3", "--devices", "8", *given_words)
    assert (ran.code, ran.err) == (0, ""), ran


# ── what they make of plans ──

DATA: dict[str, Any] = {
    **{name: name for name in ("ddp", "zero1", "zero2", "zero3", "hsdp")},
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


def made(policy: str, data: str, grid: str, per_hop: bool, **keys: Any) -> Schedule:
    """Of bf16 on 16 ranks, four in a node of two packages; messages from 512 bytes on are coded."""
    base: dict[str, Any] = {"compress_from": 512, "compression": policy, "compress_per_hop": per_hop}
    options = megatron(**base | GRIDS[grid] | {"data": DATA[data]} | keys)
    return schedule_of(options, 16, shape=other(num_layers=2 * options.chunks), micros=2, node=(4, 2))


def is_as_its_policy_says(schedule: Schedule, policy: str, per_hop: bool, least: int = 512, widen: bool = False) -> int:
    """Every collective and exchange carries the codec of its dimension where it is large enough, and nothing else is
    coded; gives the number of those that are."""
    compression, tensors, mesh = compression_of(policy, widen=widen), schedule.tensors, schedule.mesh
    coded = 0
    for op in {op.number: op for role in schedule.roles for _, op in role.instances()}.values():
        if not isinstance(op, Collective | Exchange):
            continue
        pairs = [(tensors[a.name], tensors[b.name]) for a, b in zip(op.reads, op.writes, strict=False)]
        dtype = pairs[0][0].dtype
        size = min(
            max(a.local_elements(mesh), b.local_elements(mesh)) * (4 if widen else DTYPE_BYTES[dtype]) for a, b in pairs
        )
        is_of_loss = pairs[0][0].name.startswith("loss.")  # a maximum, and sums in FP32
        dimension: Any = ("" if op.name == "tied" else "pp") if isinstance(op, Exchange) else OF_PURPOSE.get(op.name)
        wanted = compression.codec(dimension) if dimension and not is_of_loss else None
        wanted = None if wanted is not None and wanted.is_opaque and size < least else wanted
        if wanted is None and widen and dimension and not is_of_loss:
            wanted = Plain("fp32")
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


@pytest.mark.parametrize("per_hop", [False, True], ids=["at once", "per hop"])
@pytest.mark.parametrize("grid", GRIDS)
@pytest.mark.parametrize("data", DATA)
def test_every_plan_is_sound_and_codes_what_its_policy_says(data: str, grid: str, per_hop: bool) -> None:
    """Each policy in turn."""
    policy = POLICIES[(list(DATA).index(data) + list(GRIDS).index(grid) + 3 * per_hop) % len(POLICIES)]
    schedule = made(policy, data, grid, per_hop)
    assert str(check(schedule)) == "no findings"
    coded = is_as_its_policy_says(schedule, policy, per_hop)
    assert coded or (policy == POLICIES[-1] and grid == "replicas alone")


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(POLICIES),
    st.sampled_from(["ddp", "zero1", "zero2", "zero3"]),  # in the others a message may be smaller than what is moved
    st.sampled_from([name for name in GRIDS if name != "cut sequence"]),
    st.booleans(),
    st.sampled_from([0, 100, 2304, 2305, 2**20]),
    st.booleans(),
)
def test_from_any_size_on_and_of_fp32(
    policy: str, data: str, grid: str, per_hop: bool, least: int, widen: bool
) -> None:
    schedule = made(policy, data, grid, per_hop, compress_from=least, message_dtype="fp32" if widen else "model")
    assert str(check(schedule)) == "no findings"
    assert is_as_its_policy_says(schedule, policy, per_hop, least, widen) or least or policy == POLICIES[-1]


def test_a_cut_sequence_is_coded_from_any_size_on() -> None:
    """Gradients of norms are summed over the tensor axis too, along which nothing is flat."""
    for per_hop in (True, False):
        assert check(made("naive-zfp:8", "zero1", "cut sequence", per_hop, compress_from=0)).is_clean


def test_gradients_are_all_reduced_in_codes_of_every_message() -> None:
    """DeepSpeed's reduction on the data axes, by rings that code each message between two ranks."""
    data = BucketOptions(family="zero1", reduction="all_reduce")
    options = megatron(2, data=data, compression="naive-zfp:8", compress_from=0, compress_per_hop=True)
    schedule = schedule_of(options, 8)
    assert check(schedule).is_clean
    ops = [op for _, op in schedule.roles[0].instances() if isinstance(op, Collective) and op.name == "step_reduction"]
    assert {(op.kind, op.codec.name, op.per_hop) for op in ops} == {("all_reduce", "zfp", True)}


def test_small_gradients_are_all_reduced_uncoded() -> None:
    """What is too small to be coded keeps its kind of reduction."""
    data = BucketOptions(family="zero1", reduction="all_reduce")
    options = megatron(2, data=data, compression="naive-zfp:8", compress_from=2**30, compress_per_hop=True)
    ops = [op for _, op in schedule_of(options, 8).roles[0].instances() if op.name == "step_reduction"]
    assert {(op.kind, op.codec.name) for op in ops if isinstance(op, Collective)} == {("all_reduce", "bf16")}


def test_values_that_do_not_divide_are_coded_too() -> None:
    """Sequences of 5 positions on 4 ranks: 5 sums of losses."""
    options = megatron(4, compression="naive-zfp:8", compress_from=0)
    assert check(schedule_of(options, 4, shape=other(sequence=5))).is_clean


def test_values_may_be_coded_by_mpc_of_their_own_type() -> None:
    """bf16 values by a codec of bf16, beside sums of losses in fp32."""
    assert check(schedule_of(megatron(2, compression="tp=mpc:bf16:1.2", compress_from=0), 4)).is_clean


def collectives(schedule: Schedule) -> list[tuple[str, str, tuple[str, ...]]]:
    ops = [op for role in schedule.roles for _, op in role.instances()]
    return [(op.kind, op.name, op.axes) for op in ops if isinstance(op, Collective)]


@pytest.mark.parametrize("data", ["ddp", "zero1"])
@pytest.mark.parametrize("grid", ["tensor 2", "replicas alone"])
def test_a_coded_sum_is_a_scatter_and_a_gather(data: str, grid: str) -> None:
    """Where an all-reduce stood; at every hop it stays one. So do those of each micro-batch's losses, never coded: the
    largest logit and the sums, which are FP32."""
    keys = {"compress_from": 0, "overlap_input_gradients": False}
    plain = Counter(collectives(made("none", data, grid, False, **keys)))
    at_once, per_hop = (Counter(collectives(made("naive-zfp:8", data, grid, way, **keys))) for way in (False, True))
    expected: Counter[tuple[str, str, tuple[str, ...]]] = Counter()
    for (kind, name, axes), count in plain.items():
        in_one = count if kind != "all_reduce" or name == "scalar" else 4 if name == "input_gradient" else 0
        expected[kind, name, axes] += in_one
        for part in ("reduce_scatter", "all_gather"):
            expected[part, name, axes] += count - in_one
    assert at_once == +expected and per_hop == plain
    assert (at_once == plain) is (grid == "replicas alone" and data == "zero1")  # which sums by scatters anyway


def test_the_swap_of_a_tied_table_is_not_coded() -> None:
    options = megatron(1, 2, compression="naive-zfp:8", compress_from=0)
    schedule = schedule_of(options, 4, shape=other(tied=True), micros=2)
    codecs = {op.name: str(op.codec) for r in schedule.roles for _, op in r.instances() if isinstance(op, Exchange)}
    assert codecs == {"forward": "zfp:8", "both": "zfp:8", "backward": "zfp:8", "tied": "bf16"}
    assert is_as_its_policy_says(schedule, "naive-zfp:8", False, 0)


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


@pytest.mark.parametrize(("least", "coded"), [(2304, True), (2305, False)])
@pytest.mark.parametrize("per_hop", [False, True], ids=["at once", "per hop"])
def test_messages_are_coded_from_a_size_on(least: int, coded: bool, per_hop: bool) -> None:
    """Values of 1152 numbers are 2304 B, the matrices of qkv 6912 B, and vectors at most 4 · 48 / 2 numbers."""
    schedule = of_twenty("zero1", least=least, compress_per_hop=per_hop)
    of: dict[str, set[str]] = {}
    for role in schedule.roles:
        for _, op in role.instances():
            if isinstance(op, Collective | Exchange):
                of.setdefault("pp" if isinstance(op, Exchange) else op.name, set()).add(str(op.codec))
    assert of["pp"] == ({"mpc:bf16:1.03"} if coded else {"bf16"})
    assert of["activation"] == ({"zfp:8.25"} if coded else {"bf16"})
    assert of["input_gradient"] == {"fp32", "zfp:8.25" if coded else "bf16"}  # sums of losses have 24 · 2 · 4 B
    assert of["step_reduction"] == {"zfp:8", "bf16"} and of["publish"] == {"zfp:16", "bf16"}
    assert of["scalar"] == {"fp32"}
