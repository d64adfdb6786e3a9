"""Placement rules of sharded tensors: partial sums and maxima, and the axes of the gradient norm."""

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.core.program import Call, Compute, Mesh, Op, Ref, Role, Schedule, Tensor
from simfrontier.core.program.placement import REPLICATE, Placement, flat, partial
from tests.core.program.mutations import lines
from tests.core.program.naming import named_op

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
