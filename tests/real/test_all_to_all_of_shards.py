"""A value that is cut along one dimension becomes cut along another, on ranks in one process: every rank ends with its
block of the new placement."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from hypothesis import given, strategies as st

from simfrontier.core.codecs import Codec, Plain, Quantised
from simfrontier.core.program import Call, Collective, Compute, Mesh, Op, Placement, Ref, Role, Schedule, Tensor
from simfrontier_real.ops.local import LOCAL_KERNELS
from tests.real.together import block, contexts_of, executing


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
