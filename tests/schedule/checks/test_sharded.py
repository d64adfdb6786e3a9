"""The placement rules of tensors cut along their dimensions: partial sums and maxima, tokens, the norm's axes."""

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.codecs import Plain
from simfrontier.schedule import Call, Collective, Compute, Mesh, Op, Ref, Role, Schedule, Tensor
from simfrontier.schedule.placement import REPLICATE, Placement, flat, partial
from tests.schedule.mutations import lines
from tests.schedule.naming import named_op

MESH = Mesh((("data", 2), ("y", 2), ("x", 4)))
ROWS = Placement(shards=(("data", 0),))


def of(name: str, dims: str, placement: Placement, role: Any = "activation", **fields: Any) -> Tensor:
    return Tensor(
        name=name, shape=(16,) * len(dims), dtype="fp32", role=role, placement=placement, dims=tuple(dims), **fields
    )


def placements(op: Op, *tensors: Tensor) -> list[str]:
    """What the placement and reference rules say of one op on these tensors, all of them there before."""
    held = {tensor.name: replace(tensor, persistent=True) for tensor in tensors}
    role = Role("all", (Call("step", 0, 0, (op,)),))
    schedule = Schedule(mesh=MESH, tensors=held, roles=(role,), pools={}, meta={})
    return [line for line in lines(schedule) if line.startswith(("placements", "references"))]


def work(kind: str, labels: str, reads: str, writes: str, **cuts: str) -> Compute:
    return Compute(
        kind=kind,
        name=kind,
        named=named_op(kind, kind),
        reads=tuple(map(Ref, reads.split())),
        writes=tuple(map(Ref, writes.split())),
        iteration=tuple((label, 16) for label in labels),
        split=tuple((axis, label) for axis, label in cuts.items()),
    )


@pytest.mark.parametrize(("kind", "how"), [("loss_max", "max"), ("loss_sums", "sum"), ("norm_sums", "sum")])
def test_a_cut_label_that_is_not_in_the_result_leaves_it_partial(kind: str, how: Any) -> None:
    """data cuts b, y cuts v: of (b, s, v) the rank holds a block; the result (b, s) is still to be combined over y."""
    op = work(kind, "bsv", "logits", "top", data="b", y="v")
    logits = of("logits", "bsv", Placement(shards=(("data", 0), ("y", 2))))
    other: Any = {"sum": "max", "max": "sum"}[how]
    for made, clean in ((how, True), (other, False)):
        result = placements(op, logits, of("top", "bs", Placement(ROWS.shards, partial=(("y", made),))))
        assert (not result) == clean, result
    assert f"top as [data:shard(0) y:partial({how})] as a result" in result[0]


def test_partial_values_may_be_added_if_all_are_partial_alike() -> None:
    op = work("add", "bs", "one two", "sum", data="b", y="v")
    still = Placement(ROWS.shards, partial=(("y", "sum"),))
    names = ("one", "two", "sum")
    assert placements(op, *(of(name, "bs", still) for name in names)) == []
    assert placements(op, *(of(name, "bs", ROWS) for name in names)) == []
    for whole in names:
        result = placements(op, *(of(name, "bs", ROWS if name == whole else still) for name in names))
        assert len(result) == 2 and all("as [data:shard(0)]" in line for line in result), result
    largest = Placement(ROWS.shards, partial=(("y", "max"),))
    assert len(placements(op, *(of(name, "bs", largest) for name in names))) == 3
    assert len(placements(replace(op, kind="gelu"), *(of(name, "bs", still) for name in names))) == 3


@pytest.mark.parametrize("kind", ["matmul", "add", "slice", "accumulate", "norm2", "adam", "hook"])
def test_any_local_op_may_wait_for_a_token(kind: str) -> None:
    pair = (of("a", "bs", REPLICATE), of("b", "bs", REPLICATE))
    adds = kind in ("accumulate", "norm2")
    op = Compute(
        kind=kind,
        name=kind,
        named=named_op(kind, kind),
        reads=(Ref("a"), Ref("t")) if kind not in ("hook", "adam") else (Ref("t"),),
        writes=(Ref("b"),) if not adds and kind not in ("hook", "adam") else (),
        accumulates=(Ref("b"),) if adds else (),
    )
    token = Tensor(name="t", shape=(1,), dtype="token", role="token", placement=REPLICATE)
    assert placements(op, *pair, token) == []


def test_shards_of_different_dimensions_stand_in_any_order_and_of_one_in_theirs() -> None:
    """A reduce-scatter along h of what data cuts along b; the target may name the cut of h first."""
    src = of("v.partial", "bh", Placement((("data", 0),), partial=(("x", "sum"),)), form_of="v")
    op = Collective(
        kind="reduce_scatter",
        name="activation",
        axes=("x",),
        src=(Ref("v.partial"),),
        dst=(Ref("v"),),
        codec=Plain("fp32"),
    )
    for shards in ((("x", 1), ("data", 0)), (("data", 0), ("x", 1)), (("data", 0), ("x", 0))):
        assert placements(op, src, of("v", "bh", Placement(shards))) == []
    assert placements(op, src, of("v", "bh", Placement((("x", 0), ("data", 0))))) != []


def test_a_slice_may_cut_any_dimension_further() -> None:
    op = Compute(kind="slice", name="slice", reads=(Ref("src"),), writes=(Ref("dst"),))
    src = of("src", "bh", Placement((("data", 1),)))
    for shards in ((("x", 0), ("data", 1)), (("data", 1), ("x", 1))):
        assert placements(op, src, of("dst", "bh", Placement(shards))) == []
    for shards in ((("x", 1), ("data", 1)), (("x", 0),)):
        assert len(placements(op, src, of("dst", "bh", Placement(shards)))) == 1


def test_a_collective_or_exchange_makes_another_form_of_what_goes_in() -> None:
    """An all-gather that brings the input of another module, and a sum of another scalar."""
    whole, part = REPLICATE, Placement((("x", 1),))
    gather = Collective(
        kind="all_gather", name="activation", axes=("x",), src=(Ref("v"),), dst=(Ref("w"),), codec=Plain("fp32")
    )
    (line,) = placements(gather, of("v", "bh", part), of("w", "bh", whole))
    assert "expected a form of v, the value that goes in; found w" in line
    right = replace(gather, dst=(Ref("v.gathered.forward"),))
    assert placements(right, of("v", "bh", part), of("v.gathered.forward", "bh", whole, form_of="v")) == []
    summed = replace(gather, kind="all_reduce", src=(Ref("norm"),), dst=(Ref("overflow.total"),))
    scalars = (of("norm", "", partial(("x",)), "scalar"), of("overflow.total", "", whole, "scalar"))
    (line,) = placements(summed, *scalars)
    assert "expected a form of norm, the value that goes in; found overflow.total" in line


@pytest.mark.parametrize(
    ("src", "dst", "is_one"),
    [
        ({}, {"stage": "forward"}, True),
        ({"stage": "forward"}, {"stage": "backward"}, False),
        ({"recomputes": "v"}, {"recomputes": "v", "stage": "recompute"}, True),
        ({"recomputes": "v"}, {}, False),
        ({"form_of": None, "name": "v"}, {"recomputes": "v"}, True),
        ({}, {"recomputes": "v"}, False),
    ],
)
def test_forms_of_a_value_are_of_one_pass_and_of_one_computation(
    src: dict[str, Any], dst: dict[str, Any], is_one: bool
) -> None:
    """`v.partial` of the forward does not become `v.again`, nor what was gathered for one pass that of another."""
    first = of(**{"name": "v.a", "dims": "bh", "placement": Placement((("x", 1),)), "form_of": "v", **src})
    second = of(**{"name": "v.b", "dims": "bh", "placement": REPLICATE, "form_of": "v", **dst})
    gather = Collective(
        kind="all_gather",
        name="activation",
        axes=("x",),
        src=(Ref(first.name),),
        dst=(Ref(second.name),),
        codec=Plain("fp32"),
    )
    of_another = [line for line in placements(gather, first, second) if "expected a form of" in line]
    assert (not of_another) == is_one


def test_a_layer_or_micro_batch_of_what_has_none_is_refused() -> None:
    tensors = (of("a", "bs", REPLICATE), of("b", "bs", REPLICATE))
    op = work("gelu", "bs", "a", "b")
    assert placements(op, *tensors) == []
    (line,) = placements(replace(op, reads=(Ref("a", -1),)), *tensors)
    assert "expected a, which is of no layer; found that of the layer -1 from here" in line
    (line,) = placements(replace(op, reads=(Ref("a", 0, 1),)), *tensors)
    assert "expected a, which is of no micro-batch; found that of the micro-batch +1 from here" in line


def test_work_of_the_model_is_of_one_micro_batch() -> None:
    tensors = tuple(of(name, "bs", REPLICATE, per_micro=True) for name in ("a", "b", "c"))
    op = work("add", "bs", "a b", "c")
    assert placements(op, *tensors) == []
    (line,) = placements(replace(op, reads=(Ref("a"), Ref("b", 0, 1))), *tensors)
    assert "expected b of the micro-batch of c (+0 from the call); found +1" in line


@pytest.mark.parametrize(
    ("reads", "writes", "message"), [("m", "", "read, not written"), ("", "m", "written, not read")]
)
def test_an_adam_reads_and_writes_moments_and_masters(reads: str, writes: str, message: str) -> None:
    tensors = [of("w", "bh", REPLICATE, "weight"), of("w.grad", "bh", REPLICATE, "gradient")]
    tensors += [of("w.master", "bh", REPLICATE, "master"), of("w.m", "bh", REPLICATE, "optimizer")]

    def adam(reads: str, writes: str) -> list[str]:
        named = [tuple(Ref(f"w.{name}") for name in f"{side} master".split()) for side in (reads, writes)]
        op = Compute(kind="adam", name="adam", reads=(Ref("w.grad"), *named[0]), writes=(*named[1], Ref("w")))
        return placements(op, *tensors)

    assert adam("m", "m") == []
    (line,) = adam(reads, writes)
    assert f"expected w.m read and written by the adam; found {message}" in line


def norm(target: Placement, *gradients: Placement) -> list[str]:
    """The findings about a norm of gradients that lie so."""
    weights = [of(f"w{i}", "bh", REPLICATE, "weight") for i in range(len(gradients))]
    made = [
        of(f"w{i}.grad", "bh", placement, "gradient", nesting=("data",) if placement.flat else ())
        for i, placement in enumerate(gradients)
    ]
    scalar = Tensor(name="norm", shape=(1,), dtype="fp32", role="scalar", placement=target)
    reads = tuple(Ref(each.name) for each in made)
    return placements(
        Compute(kind="norm2", name="norm", reads=reads, accumulates=(Ref("norm"),)), *weights, *made, scalar
    )


def test_without_shards_the_norm_is_partial_over_exactly_the_flat_axes() -> None:
    assert norm(partial(("data",)), flat(("data",)), REPLICATE) == []
    assert norm(REPLICATE, REPLICATE) == []
    assert len(norm(partial(("data", "x")), flat(("data",)))) == 1
    assert len(norm(REPLICATE, flat(("data",)))) == 1


def test_with_shards_the_norm_is_partial_over_all_that_divides_a_gradient_at_least() -> None:
    cut = Placement((("y", 0), ("x", 1)), frozenset({"data"}))
    assert norm(partial(("data", "y", "x")), cut, REPLICATE) == []
    assert norm(partial(("data", "y", "x")), Placement((("x", 1),))) == []
    (line,) = norm(partial(("data", "x")), cut)
    assert "norm as [data:partial(sum) y:partial(sum) x:partial(sum)] (the axes that divide the gradients" in line
