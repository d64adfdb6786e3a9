"""Findings of the checker for one fault of each kind in a valid schedule: op or tensor, expected, found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from simfrontier.core.codecs import Plain, Quantised, parse_codec
from simfrontier.core.program import Call, Compute, Mesh, Op, Ref, Schedule, check, digest, from_json, to_json
from simfrontier.core.program.placement import REPLICATE
from tests.core.plan.grids import megatron, schedule_of as grid_of
from tests.core.plan.test_precision import FAMILY_NAMES, QUANTISED, built
from tests.core.program import builders
from tests.core.program.builders import ENGINES, SMALL, mesh_of, options_of, schedule_of
from tests.core.program.mutations import changed, dropped, lines, mutated, says, where, with_tensor
from tests.mutated.cases import CASES

Change = Callable[[Schedule], Schedule]
Matches = Callable[[Call, Op], bool]
QKV, DENSE, HEAD = "qkv.weight", "dense.weight", "head.weight"
LAYER = {"label": "step.layer", "layer": 1}
PARTIAL, STACKED, WHOLE = "loss.pairs.partial", "loss.pairs.partial.stacked", "loss.pairs"
ALL_AXES = "[node:partial(sum) package:partial(sum) gcd:partial(sum)]"


@cache
def sound(case: str) -> Schedule:
    """A schedule without faults."""
    kind, _, name = case.partition(" ")
    match kind:
        case "small":  # any family on four devices of two nodes, two micro-batches
            engine = SMALL if name == "ddp" else ENGINES["tight"]
            made = schedule_of(options_of(name), mesh_of(2, 1, 2), engine, 2, num_layers=2)
        case "eight":  # on eight devices
            made = builders.zeropp(name.partition(" ")[2] or "0.13.2") if "zeropp" in name else builders.zero3()
        case "coded" | "per-hop":  # tensor parallelism, two stages and two replicas, everything coded
            options = megatron(2, 2, compression=name, compress_from=0, compress_per_hop=kind == "per-hop")
            made = grid_of(options, 8, micros=2)
        case "merge":
            made = grid_of(megatron(2, cross_entropy="mn-merge"), 4)
        case "lamb":
            made = built(name, "fp16", optimizer="lamb", model="tiny", grad_accum=2)
        case _:
            made = CASES[name].make()
    assert str(check(made)) == "no findings"
    return made


def tensor(name: str, **fields: Any) -> Change:
    return lambda schedule: with_tensor(schedule, name, **fields)


def op(matches: Matches, **fields: Any) -> Change:
    return lambda schedule: mutated(schedule, changed(matches, **fields))


def without(matches: Matches) -> Change:
    return lambda schedule: mutated(schedule, dropped(matches))


def twice(matches: Matches) -> Change:
    return lambda schedule: mutated(schedule, lambda call, op: [op, op] if matches(call, op) else [op])


def reads(matches: Matches, old: str, new: str) -> Change:
    """Ops that read one tensor in the place of another."""

    def edit(call: Call, op: Op) -> list[Op]:
        if not matches(call, op) or not isinstance(op, Compute):
            return [op]
        return [replace(op, reads=tuple(ref._replace(name=new) if ref.name == old else ref for ref in op.reads))]

    return lambda schedule: mutated(schedule, edit)


def meta(**values: Any) -> Change:
    """With other values of meta; None: without it."""

    def changed_meta(schedule: Schedule) -> Schedule:
        held = {**schedule.meta, **values}
        return replace(schedule, meta={key: value for key, value in held.items() if value is not None})

    return changed_meta


def in_micro_batch_1(matches: Matches) -> Matches:
    return lambda call, op: call.micro == 1 and matches(call, op)


FAULTS: list[tuple[str, Change, tuple[str, ...]]] = [
    # ── sums, versions and order ──
    (
        "small ddp",
        op(where("all_reduce"), token=Ref("gradient_norm")),
        ("placements: ", "gradient_norm with role token", "found role scalar"),
    ),
    (
        "small ddp",
        op(where("adam", label="step.head"), writes=(Ref(f"{HEAD}.master"), Ref(HEAD))),
        ("references: step.head", f"{HEAD}.moments read and written by the adam", "found read, not written"),
    ),
    (
        "eight zero3",
        without(where("reduce_scatter", label="backward", layer=1, touches=f"{DENSE}.grad.ordered0")),
        ("references: backward of layer 1", "accumulate gradient", f"{DENSE}.grad.hop0", "no op writes it"),
    ),
    (
        "eight zero3",
        twice(in_micro_batch_1(where("accumulate"))),
        ("sums: ", "from each of the micro-batches 0..1, once", "micro-batch 0 once, micro-batch 1 twice"),
    ),
    (
        "eight zero3",
        without(where("adam", label="step.head")),
        (f"sums: end of step: {HEAD}", "expected one adam per step; found none"),
    ),
    (
        "eight zero3",
        twice(where("adam", label="step.head")),
        (f"sums: end of step: {HEAD}", "expected one adam per step; found 2 of them"),
    ),
    (
        "eight zeropp 0.10.2",
        without(where("slice", name=f"{DENSE}.copy")),
        (f"versions: end of step: {DENSE}.copy of layer 0", "and 1 more like it", "written again in every step"),
    ),
    ("lamb zero3", without(where("lamb", **LAYER)), (f"sums: end of step: {DENSE}", "expected one lamb per step")),
    ("lamb zero3", twice(where("lamb", **LAYER)), (f"sums: end of step: {DENSE}", "one lamb per step; found 2")),
    ("lamb zero3", twice(where("lamb_update", **LAYER)), ("facts", "lamb_update", "once in its block")),
    ("lamb zero3", without(where("lamb_update", **LAYER)), ("references", f"{DENSE}.update of layer 1 written by")),
    (
        "lamb zero3",
        without(where("all_reduce", "scalar", **LAYER)),
        ("references", f"{DENSE}.norms.total of layer 1 written by an op before"),
    ),
    (
        "lamb zero3",
        without(where("norm2", label="norm.layer", layer=1)),
        ("sums: ", "lamb_update", f"a norm that counts {DENSE} of layer 1 once", "found not at all"),
    ),
    (
        "lamb zero3",
        reads(where("lamb"), f"{DENSE}.norms.total", f"{QKV}.norms.total"),
        ("facts", "lamb", f"an update, master and norms of {DENSE} read once", "master, update"),
    ),
    (
        "case ddp",
        lambda schedule: mutated(
            schedule, lambda _, op: [op, replace(op, name="softmax")] if op.name == "softmax" else [op]
        ),
        ("softmax", "probabilities", "found written again before it is"),
    ),
    # ── placements ──
    (
        "eight zero3",
        op(where("all_gather", label="forward", layer=1), axes=("package", "gcd")),
        ("placements: forward of layer 1", "after the all_gather over package+gcd of", "as [node:flat]", "[replicate]"),
    ),
    (
        "eight zero3",
        op(where("all_gather", label="forward", layer=1), axes=("package", "gcd")),
        ("order: ", "expected communicator world over gcd+node+package", "found package+gcd"),
    ),
    (
        "eight zero3",
        tensor("context", placement=REPLICATE),
        (
            "placements: forward of layer 0, micro-batch 0: context",
            "expected context as [node:shard(0) package:shard(0) gcd:shard(0)] as a result, because node cuts b",
            "found [replicate]",
        ),
    ),
    (
        "eight zero3",
        tensor(f"{DENSE}.grad.raw", placement=REPLICATE),
        ("matmul dense.wgrad", f"as {ALL_AXES} as a result"),
    ),
    (
        "eight zero3",
        reads(where("adam", label="step.head"), f"{HEAD}.grad", f"{HEAD}.grad.raw"),
        ("placements: step.head of layer 0, micro-batch 0: adam", f"like {HEAD}.master", f"found {ALL_AXES}"),
    ),
    # ── codes ──
    (
        "eight zeropp",
        op(where("all_gather", name="weight_gather"), codec=Quantised("int4", 6144)),
        ("placements: ", "sent0 coded as int4:6144; found coded as int8:6144"),
    ),
    ("eight zero3", op(where("all_gather"), codec=Plain("fp32")), ("expected codec fp16, the type of", "codec fp32")),
    *(
        (
            "per-hop naive-zfp:8",
            op(where("all_reduce", "activation"), via=via),
            ("expected a gather or reduction by ring in int8, int4, zfp or mpc", f"found all_reduce by {via} in zfp:8"),
        )
        for via in ("library", "tree", "direct")
    ),
    (
        "per-hop naive-zfp:8",
        op(where("all_reduce", "activation"), per_hop=False),
        ("placements: ", "expected an all_reduce in fp64, fp32, fp16 or bf16; found codec zfp:8"),
    ),
    ("coded naive-zfp:8", tensor("x.got0", stacked=()), ("x.got0 stacked over tensor; found not stacked",)),
    ("coded naive-zfp:8", tensor("x.got1", codec=None), ("decode activation", "x.got1 coded; found not coded")),
    ("coded naive-zfp:8", tensor("x.sent1", codec=None), ("encode activation", "x.sent1 coded; found not coded")),
    *(
        (
            "coded naive-zfp:8",
            op(where("exchange"), codec=codec),
            ("placements: ", f"expected d.x.exchange.got coded as {codec}; found coded as zfp:8"),
        )
        for codec in (parse_codec("zfp:16"), parse_codec("mpc:bf16:1.03"), Plain("bf16"))
    ),
    (
        "coded naive-zfp:8",
        without(where("decode", label="exchange")),
        ("references", "expected x of", "no op writes it"),
    ),
    ("coded naive-zfp:8", without(where("encode", label="exchange")), ("x.exchange.sent", "no op writes it")),
    # ── what is gathered and merged ──
    ("merge", tensor(STACKED, stacked=()), ("merge", f"{STACKED} stacked: contributions side by side")),
    ("merge", reads(where("loss"), WHOLE, STACKED), ("loss", f"{STACKED} not stacked", "stacked over tensor")),
    ("merge", without(where("merge")), ("loss", WHOLE, "written")),
    # ── facts of tensors ──
    (
        "small zero3",
        tensor(f"{QKV}.moments", dtype="uint8"),
        (f"type moments or fp32, as optimizer of {QKV} in fp16", "uint8"),
    ),
    ("small zero3", tensor(f"{QKV}.master", dtype="fp16"), ("the type of the other masters, fp32", "found fp16")),
    ("small zero3", tensor(f"{QKV}.grad", dtype="bf16"), ("type fp16 or fp32, as accumulator of", "found bf16")),
    ("small zero3", tensor(f"{QKV}.moments", role="copy"), (f"a gradient, master and optimizer state of {QKV}",)),
    ("small zero3", tensor(f"{QKV}.grad.ordered0", role="gathered"), ("with one of the roles", "found gathered")),
    ("small ddp", tensor(f"{QKV}.grad", role="gradient"), ("a gradient tensor that ends with the step",)),
    ("small zero3", tensor(f"{QKV}.grad.ordered0", per_micro=False), ("of a micro-batch", "found of no micro-batch")),
    ("small zero3", tensor(f"{QKV}.grad.ordered0", per_layer=False), (f"as {QKV}.grad.raw is", "found of no layer")),
    *(
        (
            "small ddp",
            lambda schedule, name=name, home=home: with_tensor(
                with_tensor(schedule, home, dtype=schedule.tensors[name].dtype), name, shares=home
            ),
            (f"tensor {name}", "to lie in the memory of what is all-reduced into it", "found"),
        )
        for name, home in ((f"{QKV}.grad.reduced", f"{QKV}.master"), (f"{QKV}.grad.reduced", QKV), ("d.x", "x"))
    ),
    (
        "small ddp",
        reads(where("norm2", label="norm.layer"), f"{QKV}.grad.reduced", f"{QKV}.grad"),
        (f"tensor {QKV}.grad.reduced", f"reads {QKV}.grad, too"),
    ),
    # ── facts of ops and of meta ──
    *(
        (
            "small zero3",
            op(where("matmul", name="h_to_4h.wgrad"), flops=flops),
            ("matmul h_to_4h.wgrad", "flops, of its iteration space", f"found {flops}"),
        )
        for flops in (0, 1, 10**15)
    ),
    ("small ddp", meta(num_layers=3), ("meta num_layers", "found 3")),
    ("small ddp", meta(grad_accum=None), ("meta grad_accum", "nothing said")),
    ("small ddp", meta(heads=8), ("heads", "found")),
    ("small ddp", meta(clip="each"), ("meta clip", "found")),
    ("lamb zero3", meta(optimizer="adam"), ("facts: meta optimizer", "expected lamb, as its steps are; found 'adam'")),
    ("lamb zero3", meta(optimizer=None), ("facts: meta optimizer", "found nothing said")),
]


@pytest.mark.parametrize(("case", "change", "words"), FAULTS)
def test_a_fault_is_named(case: str, change: Change, words: tuple[str, ...]) -> None:
    says(change(sound(case)), *words)


@pytest.mark.parametrize("family", FAMILY_NAMES)
def test_every_family_steps_by_lamb_and_is_read_as_it_was_written(family: str) -> None:
    for options in ({}, QUANTISED.get(family, {})):
        made = built(family, "fp16", optimizer="lamb", model="tiny", **options)
        assert str(check(made)) == "no findings"
        again = from_json(to_json(made), "a file")
        assert digest(again) == digest(made) and again.tensors == made.tensors


@pytest.mark.parametrize("case", ["coded MZHybrid:8", "per-hop MZHybrid:8"])
def test_coded_schedules_are_clean(case: str) -> None:
    sound(case)


@pytest.mark.parametrize("family", ["zero3", "zeropp"])
def test_a_master_has_the_nesting_of_its_weight(family: str) -> None:
    base = sound(f"small {family}")
    nesting = base.mesh.live(base.tensors[QKV].nesting)
    wrong = with_tensor(base, f"{QKV}.master", nesting=nesting[::-1])
    says(wrong, f"tensor {QKV}.master", f"the nesting of {QKV}, {'×'.join(nesting)}", "×".join(nesting[::-1]))


def test_swapped_order_is_named() -> None:
    def swap(call: Call, op: Op) -> list[Op]:
        if call.label == "forward" and op.name in ("softmax", "scores"):
            return [{o.name: o for o in call.ops}["scores" if op.name == "softmax" else "softmax"]]
        return [op]

    says(
        mutated(sound("eight zero3"), swap),
        "references: forward of layer 0, micro-batch 0: softmax (all ranks, and 3 more like it)",
        "expected scores of layer 0, micro-batch 0 written by an op before",
        "found it is written later, by forward of layer 0, micro-batch 0: scores",
    )


def test_gather_into_the_wrong_layer_is_named() -> None:
    def shift(_: Call, op: Op) -> list[Op]:
        if op.kind != "all_gather" or op.name != "weight_gather" or not op.writes[0].name.startswith("qkv"):
            return [op]
        first, *rest = op.writes
        return [replace(op, dst=(first._replace(layer=first.layer + 1), *rest))]  # type: ignore[call-arg]

    says(mutated(sound("eight zero3"), shift), "references: ", f"expected {QKV}.full.forward of the layer of {QKV}")


def test_step_reduction_before_the_last_accumulate_is_named() -> None:
    """The reduction of a step takes an accumulator that a later micro-batch still adds to."""
    schedule = builders.topo()
    is_step = where("encode", name="step_reduction", touches=f"{HEAD}.grad")
    label = next(call.label for call, op in schedule.roles[0].instances() if is_step(call, op))
    moved = [op for call, op in schedule.roles[0].instances() if call.label == label and op.name == "step_reduction"]
    parts = [op for op in moved if any(ref.name.startswith(f"{HEAD}.") for ref in op.reads)]

    def early(call: Call, op: Op) -> list[Op]:
        if call.label == label and op in parts:
            return []
        if call.label == "embedding" and call.micro == 1 and op.kind == "lookup":
            return [op, *parts]
        return [op]

    says(mutated(schedule, early), "sums: ", f"{HEAD} from each of the micro-batches 0..1", "micro-batch 0 once")


def test_stale_gather_is_named() -> None:
    """The first forward of the step reads the copy that the previous step left, of one matrix."""

    def stale(call: Call, op: Op) -> list[Op]:
        pairs = list(zip(op.reads, op.writes, strict=False))
        at_1 = [a for a, _ in pairs if a.name == QKV and a.layer + call.layer == 1]
        if call.micro != 0 or op.kind != "encode" or op.name != "weight_gather" or not at_1:
            return [op]
        assert isinstance(op, Compute)
        copy = at_1[0]._replace(name=f"{QKV}.copy")
        sent = Ref(f"{QKV}.full.forward.sent0", at_1[0].layer, op.writes[0].micro)
        rest = [(a, b) for a, b in pairs if a != at_1[0]]
        others = replace(op, reads=tuple(a for a, _ in rest), writes=tuple(b for _, b in rest))
        return [*([others] if rest else []), replace(op, name="stale", reads=(copy,), writes=(sent,))]

    wrong = mutated(sound("eight zeropp"), stale)
    says(
        wrong,
        "versions: forward of layer 1, micro-batch 0: matmul qkv",
        f"expected {QKV}.full.forward of layer 1, micro-batch 0 at most 0 steps old",
        "found the previous step's weights, 1 step old",
    )
    lenient = mutated(wrong, changed(where("matmul", name="qkv", label="forward"), max_age=1))
    assert not any(line.startswith("versions: forward") for line in lines(lenient))
    says(lenient, f"end of step: {QKV}.copy of layer 1", "from itself")


def test_a_call_out_of_place_leaves_a_gradient_unread() -> None:
    """The embedding's backward before that of the layers takes the gradient that has just arrived; that of layer 0 is
    then for nobody."""
    schedule = sound("case compressed int8")
    role = schedule.roles[0]
    calls = list(role.calls)
    last = max(at for at, call in enumerate(calls) if call.label == "embedding.backward")
    arrived = calls[last - 3]
    assert arrived.label == "exchange"
    calls[last - 2 : last + 1] = [replace(calls[last], layer=arrived.layer), *calls[last - 2 : last]]
    wrong = replace(schedule, roles=(replace(role, calls=tuple(calls)), *schedule.roles[1:]))
    says(wrong, "ln1.backward", "d.x of layer 0, micro-batch 1 read by an op later", "found read by none")


def test_an_axis_along_which_all_do_the_same_is_named() -> None:
    """DDP on one node, said to be on 1,000,000,000: all of them would train the same model on the same samples."""
    base = schedule_of(options_of("ddp"), mesh_of(1, 2, 2), SMALL, num_layers=2)
    assert check(base).is_clean
    tensors = {
        name: replace(t, nesting=tuple(axis for axis in t.nesting if axis != "node"))
        for name, t in base.tensors.items()
    }
    wide = replace(base, mesh=Mesh((("node", 10**9), ("package", 2), ("gcd", 2))), tensors=tensors)

    def unsplit(_: Call, op: Op) -> list[Op]:
        return [replace(op, split=tuple(s for s in op.split if s[0] != "node")) if isinstance(op, Compute) else op]

    says(mutated(wide, unsplit), "mesh axis node", "work or states divided over its 1000000000", "found none")
