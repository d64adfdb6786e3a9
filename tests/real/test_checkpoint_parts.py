"""Parts of tensors: whole again from any placement, for any other one, bit by bit."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.errors import SimfrontierError
from simfrontier.schedule import Mesh, Placement, Tensor
from simfrontier_real.arrays import numpy_backend
from simfrontier_real.blocks import block_of
from simfrontier_real.checkpoints.parts import Part, part_of, taken, whole_of
from simfrontier_real.layout import canonical, coordinates, rearranged, whole_line

NAMES = ("a", "b", "c")


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    return Mesh(tuple((name, draw(st.integers(1, 3))) for name in draw(st.permutations(NAMES))))


@st.composite
def placements(draw: st.DrawFn, mesh: Mesh, shape: tuple[int, ...]) -> tuple[Placement, tuple[str, ...]]:
    """(a placement, a nesting): some axes cut dimensions that divide, some of the others are flat."""
    nesting = tuple(draw(st.permutations(NAMES)))[: draw(st.integers(0, 3))]
    shards, left = [], list(shape)
    for axis in draw(st.permutations(NAMES)):
        dim = draw(st.integers(0, len(shape) - 1))
        if axis not in nesting and draw(st.booleans()) and left[dim] % mesh[axis] == 0:
            shards.append((axis, dim))
            left[dim] //= mesh[axis]
    flat = frozenset(axis for axis in nesting if draw(st.booleans()))
    return Placement(tuple(shards), flat), nesting


def tensor(shape: tuple[int, ...], placed: tuple[Placement, tuple[str, ...]]) -> Tensor:
    return Tensor(name="t", shape=shape, dtype="fp64", role="weight", placement=placed[0], nesting=placed[1])


def held(whole: np.ndarray, of: Tensor, mesh: Mesh, rank: int) -> np.ndarray:
    """What the executor gives a rank of a tensor."""
    backend, at = numpy_backend(), coordinates(mesh, rank)
    block = whole[block_of(of.shape, of.placement, mesh, at, of.name)]
    line = whole_line(backend, block, of, mesh)
    out: np.ndarray = rearranged(backend, line, mesh, mesh.live(of.nesting), canonical(of, mesh), at)
    return out


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_placement_becomes_any_other(data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.sampled_from([1, 2, 3, 4, 6, 7]), min_size=1, max_size=3)))
    whole = np.random.default_rng(0).normal(size=shape)
    bits = whole.view(np.uint64)
    source, target = data.draw(meshes()), data.draw(meshes())
    one, other = (tensor(shape, data.draw(placements(mesh, shape))) for mesh in (source, target))
    parts = []
    for rank in data.draw(st.permutations(range(source.num_ranks))):
        part = part_of(one, source, coordinates(source, rank))
        line = held(whole, one, source, rank)
        assert part.num_elements == len(line) == one.local_elements(source)
        parts.append((part, line.view(np.uint64)))
    again = whole_of(shape, parts, "t")
    assert np.array_equal(again, bits)
    for rank in range(target.num_ranks):
        line = taken(again, part_of(other, target, coordinates(target, rank)))
        assert np.array_equal(line, held(whole, other, target, rank).view(np.uint64))


def test_a_part_by_hand() -> None:
    """Six numbers over two axes of two, padded to eight: nesting (a, b) gives ab = 00: 0 1, 01: 2 3, 10: 4 5, 11: the
    zeros. Flat over b alone, a rank has both values of a: b = 1 has 2 3 and the zeros."""
    mesh = Mesh((("a", 2), ("b", 2)))
    of = tensor((6,), (Placement((), frozenset({"b"})), ("a", "b")))
    part = part_of(of, mesh, {"a": 0, "b": 1})
    assert part == Part(((0, 6),), ((2, None), (2, 1)))
    assert taken(np.arange(6), part).tolist() == [2, 3, 0, 0]


def test_a_tensor_of_which_a_part_is_missing_is_refused() -> None:
    halves = [(Part(((0, 4),), ((2, digit),)), np.arange(2)) for digit in range(2)]
    assert whole_of((4,), halves, "t").tolist() == [0, 1, 0, 1]
    with pytest.raises(SimfrontierError, match=r"^t: 2 of its 4 elements are in no file$"):
        whole_of((4,), halves[:1], "t")
    with pytest.raises(SimfrontierError, match=r"^t: a part of 2 elements is none of a tensor of"):
        whole_of((4,), [(Part(((0, 4),)), np.arange(2))], "t")
    quarters = [(Part(((0, 4),), ((4, 0),)), np.arange(1)), *halves]
    assert math.prod(whole_of((4,), quarters, "t").shape) == 4  # any that cover it all


def test_of_a_part_that_comes_again_the_first_counts() -> None:
    part = Part(((0, 2),))
    assert whole_of((2,), [(part, np.array([1, 2])), (part, np.array([3, 4]))], "t").tolist() == [1, 2]
