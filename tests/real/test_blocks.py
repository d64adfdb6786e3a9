"""Blocks of tensors that are cut along their dimensions: collectives of them, and states that lie in them."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Codec, Plain, Quantised
from simfrontier.core.program import Call, Collective, Compute, Mesh, Op, Placement, Ref, Role, Schedule, Tensor
from simfrontier.core.program.ir import CollectiveKind
from simfrontier.core.program.placement import PartialOp
from simfrontier_real.ops.arrays import Backend, numpy_backend, torch_backend
from simfrontier_real.ops.layout import coordinates, first_index, layouts_of, local_shape, side_by_side, taken_apart
from simfrontier_real.ops.moves import LOCAL_KERNELS
from simfrontier_real.ops.programs import RankContext, programs_of
from tests.real.lowerings import lowered_of
from tests.real.together import block, contexts_of, executing
from tests.some import some

AXES = ("p", "q", "r")
MESH = Mesh((("p", 2), ("q", 3), ("r", 2)))
SHAPE = (12, 24, 2)
Shards = tuple[tuple[str, int], ...]


def activation(name: str, placement: Placement) -> Tensor:
    return Tensor(name=name, shape=SHAPE, dtype="fp64", role="activation", placement=placement, persistent=True)


def one_call(kind: CollectiveKind, axes: tuple[str, ...], before: Placement, after: Placement, num: int) -> Schedule:
    """One collective of `num` activations."""
    tensors = {}
    for number in range(num):
        for side, placement in (("src", before), ("dst", after)):
            tensors[f"{side}{number}"] = activation(f"{side}{number}", placement)
    src, dst = (tuple(Ref(f"{side}{number}") for number in range(num)) for side in ("src", "dst"))
    op = Collective(kind=kind, name="activation", axes=axes, src=src, dst=dst, codec=Plain("fp64"))
    role = Role("all", (Call("step", 0, 0, (op,)),))
    return Schedule(mesh=MESH, tensors=tensors, roles=(role,), pools={}, meta={})


def done(made: Schedule, parts: list[dict[Ref, Any]], lowered: bool = False) -> list[RankContext]:
    """The ranks after a step that began with these buffers."""
    contexts = contexts_of(made)
    for context, mine in zip(contexts, parts, strict=True):
        context.buffers.by_ref.update(mine)
    executing(contexts, {}, lowered_of(made) if lowered else None).run_step()
    return contexts


@st.composite
def cuts(draw: st.DrawFn) -> tuple[tuple[str, ...], Shards, Shards, tuple[str, ...]]:
    """(axes of a call, shards that stay, shards that the call makes or takes away, the remaining axes): the first two
    dimensions divide by any of the axes together."""
    order = draw(st.permutations(AXES))
    moved = tuple(order[: draw(st.integers(1, 3))])
    rest = tuple(axis for axis in order if axis not in moved)
    stay = rest[: draw(st.integers(0, len(rest)))]
    dims = st.integers(0, 1)
    kept = tuple((axis, draw(dims)) for axis in stay)
    inner = tuple((axis, draw(dims)) for axis in draw(st.permutations(moved)))
    return moved, kept, inner, tuple(axis for axis in rest if axis not in stay)


@settings(max_examples=40, deadline=None)
@given(cut=cuts(), num=st.integers(1, 3))
def test_an_all_gather_of_blocks_puts_pieces_side_by_side(
    cut: tuple[tuple[str, ...], Shards, Shards, tuple[str, ...]], num: int
) -> None:
    axes, kept, inner, _ = cut
    made = one_call("all_gather", axes, Placement((*kept, *inner)), Placement(kept), num)
    whole = [np.random.default_rng(number).normal(size=SHAPE) for number in range(num)]
    parts = [
        {Ref(f"src{n}"): block(made, f"src{n}", whole[n], rank).copy() for n in range(num)}
        for rank in range(MESH.num_ranks)
    ]
    for context in some(done(made, parts)):
        for n in range(num):
            own = block(made, f"dst{n}", whole[n], context.rank)
            assert np.array_equal(context.buffers[Ref(f"dst{n}")], own)


@settings(max_examples=40, deadline=None)
@given(
    cut=cuts(),
    num=st.integers(1, 3),
    how=st.sampled_from(["sum", "max"]),
    scatters=st.booleans(),
    lowered=st.booleans(),
)
def test_reductions_of_blocks_combine_what_the_ranks_have(
    cut: tuple[tuple[str, ...], Shards, Shards, tuple[str, ...]],
    num: int,
    how: PartialOp,
    scatters: bool,
    lowered: bool,
) -> None:
    """Every rank along the call's axes has a block of its own; the result is their sum (or largest), which a
    reduce-scatter also cuts."""
    axes, kept, inner, _ = cut
    before = Placement(kept, frozenset(), tuple((axis, how) for axis in axes))
    scatters = scatters and how == "sum"
    after = Placement((*kept, *inner) if scatters else kept)
    made = one_call("reduce_scatter" if scatters else "all_reduce", axes, before, after, num)
    contributions = {
        (n, *digits): np.random.default_rng([n, *digits]).integers(-9, 9, SHAPE).astype(float)
        for n in range(num)
        for digits in itertools.product(*(range(MESH[axis]) for axis in axes))
    }
    parts = []
    for rank in range(MESH.num_ranks):
        digits = tuple(coordinates(MESH, rank)[axis] for axis in axes)
        parts.append(
            {Ref(f"src{n}"): block(made, f"src{n}", contributions[n, *digits], rank).copy() for n in range(num)}
        )
    combine = np.maximum if how == "max" else np.add
    for context in some(done(made, parts, lowered)):
        for n in range(num):
            mine = [values for key, values in contributions.items() if key[0] == n]
            expected = mine[0]
            for values in mine[1:]:
                expected = combine(expected, values)
            own = block(made, f"dst{n}", expected, context.rank)
            assert np.array_equal(context.buffers[Ref(f"dst{n}")], own)


@pytest.mark.parametrize("backend", [numpy_backend(), torch_backend()], ids=["numpy", "torch"])
def test_taking_apart_is_the_inverse_of_putting_side_by_side(backend: Backend) -> None:
    """A 4 × 6 block cut by p (rows) and q (columns): the member (q 1, p 1), number 3, has rows 2, 3, columns 2, 3."""
    whole = backend.xp.reshape(backend.xp.arange(24), (4, 6))
    shards = (("p", 0), ("q", 1))
    rows = taken_apart(backend.xp, whole, ("q", "p"), shards, MESH)
    assert rows[3].tolist() == [14, 15, 20, 21]
    again = side_by_side(backend.xp, rows, (2, 2), ("q", "p"), shards, MESH)
    assert again.tolist() == whole.tolist()


def test_blocks_by_hand() -> None:
    """24 columns over r then p: r takes halves of 12, p halves of those: (r 1, p 0) begins at 12, (r 0, p 1) at 6."""
    tensor = Tensor(
        name="w",
        shape=SHAPE,
        dtype="fp64",
        role="weight",
        placement=Placement((("r", 1), ("p", 1))),
        dims=("a", "b", "c"),
    )
    assert local_shape(tensor, MESH) == (12, 6, 2)
    assert first_index(tensor, "b", MESH, {"p": 0, "q": 2, "r": 1}) == 12
    assert first_index(tensor, "b", MESH, {"p": 1, "q": 0, "r": 0}) == 6
    assert first_index(tensor, "a", MESH, {"p": 1, "q": 0, "r": 0}) == 0


def test_an_axis_that_cuts_outside_another_cannot_be_gathered() -> None:
    shards = (("p", 1), ("r", 1))
    made = one_call("all_gather", ("p",), Placement(shards), Placement(shards[1:]), 1)
    message = (
        r"^collective activation of src0: p cuts dimension 1 outside r; allowed: the innermost axes of a dimension$"
    )
    with pytest.raises(InputError, match=message):
        layouts_of(made, programs_of(made).of_roles[0])


# ── an all-to-all: what is cut along one dimension becomes cut along another ──


def value(name: str, shape: tuple[int, ...], placement: Placement, codec: Codec | None = None) -> Tensor:
    labels = tuple("bshd"[: len(shape)])
    coded = "" if codec is None else ".coded"
    return Tensor(
        name=name + coded,
        shape=shape,
        dtype="fp64",
        role="activation" if codec is None else "encoded",
        placement=placement,
        dims=labels,
        codec=codec,
        per_micro=True,
        persistent=codec is None,
        form_of=None if not coded and name == "before" else "before",
    )


def exchanged(mesh: Mesh, shape: tuple[int, ...], src: Placement, dst: Placement, codec: Codec | None) -> Schedule:
    """A step of one all-to-all over axis `p`."""
    ends = [value("before", shape, src), value("after", shape, dst)]
    sent = ends if codec is None else [value("before", shape, src, codec), value("after", shape, dst, codec)]
    before, after, a, b = (Ref(tensor.name) for tensor in (*ends, *sent))
    call = Collective(
        kind="all_to_all", name="activation", axes=("p",), src=(a,), dst=(b,), codec=codec or Plain("fp64")
    )
    ops: list[Op] = [call]
    if codec is not None:
        ops = [
            Compute(kind="encode", name="activation", reads=(before,), writes=(a,)),
            call,
            Compute(kind="decode", name="activation", reads=(b,), writes=(after,)),
        ]
    tensors = {tensor.name: tensor for tensor in (*ends, *sent)}
    role = Role("all", (Call("forward", 0, 0, tuple(ops)),))
    return Schedule(mesh=mesh, tensors=tensors, roles=(role,), pools={}, meta={})


def blocks_after(made: Schedule, whole: Any) -> list[Any]:
    """What each rank holds at the end, if the value before is `whole`."""
    contexts = contexts_of(made)
    for context in contexts:
        context.buffers.by_ref[Ref("before")] = block(made, "before", whole, context.rank).copy()
    executing(contexts, LOCAL_KERNELS).run_step()
    return [context.buffers[Ref("after")] for context in contexts]


@st.composite
def moves(draw: st.DrawFn) -> tuple[Mesh, tuple[int, ...], Placement, Placement]:
    """Another dimension for axis `p`; `q` cuts some dimension outside it, before and after."""
    p, q = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    mesh = Mesh((("q", q), ("p", p)))
    num_dims = draw(st.integers(2, 4))
    shape = tuple(p * q * draw(st.integers(1, 2)) for _ in range(num_dims))
    old, new = draw(st.permutations(range(num_dims)))[:2]
    outer = (("q", draw(st.integers(0, num_dims - 1))),)
    before, after = (Placement((*outer, ("p", dim))).on(mesh) for dim in (old, new))
    return mesh, shape, before, after


@given(moves())
def test_every_rank_ends_with_its_block_of_the_new_placement(
    move: tuple[Mesh, tuple[int, ...], Placement, Placement],
) -> None:
    mesh, shape, src, dst = move
    made = exchanged(mesh, shape, src, dst, None)
    whole = np.arange(math.prod(shape), dtype=float).reshape(shape)
    for rank, got in enumerate(blocks_after(made, whole)):
        np.testing.assert_array_equal(got, block(made, "after", whole, rank))


@given(moves())
def test_coded_pieces_arrive_where_plain_ones_do(move: tuple[Mesh, tuple[int, ...], Placement, Placement]) -> None:
    mesh, shape, src, dst = move
    made = exchanged(mesh, shape, src, dst, Quantised("int8", 64))
    whole = np.random.default_rng(0).integers(-127, 128, shape).astype(float)
    for rank, got in enumerate(blocks_after(made, whole)):
        wanted = block(made, "after", whole, rank)
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=0.51)
