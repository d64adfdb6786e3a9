"""Lines and their digits, held against the integers: which element stands where in every rank's buffer."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Plain
from simfrontier.core.program import Call, Collective, Mesh, Ref, Role, Schedule, Tensor, expand
from simfrontier.core.program.ir import CollectiveKind
from simfrontier.core.program.placement import Placement, flat, partial
from simfrontier_real.ops.arrays import numpy_backend, torch_backend
from simfrontier_real.ops.layout import Layouts, canonical, coordinates, layouts_of, rearranged, whole_line
from tests.core.plan.executor import elements, ranks_of

NAMES = ("p", "q", "r")


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    """Up to three axes of sizes 1 to 3."""
    return Mesh(tuple((name, draw(st.integers(1, 3))) for name in NAMES[: draw(st.integers(1, 3))]))


@st.composite
def flat_tensors(draw: st.DrawFn) -> tuple[Mesh, Tensor]:
    """A tensor flat over some of the axes of a nesting of its own, on some mesh."""
    mesh = draw(meshes())
    nesting = tuple(draw(st.lists(st.sampled_from(mesh.names), unique=True)))
    held = draw(st.lists(st.sampled_from(nesting), unique=True)) if nesting else []
    shape = tuple(draw(st.lists(st.integers(1, 6), min_size=1, max_size=2)))
    tensor = Tensor(name="t", shape=shape, dtype="fp64", role="weight", placement=flat(held), nesting=nesting)
    return mesh, tensor


def numbers_of(mesh: Mesh, tensor: Tensor, at: tuple[int, ...]) -> Any:
    """What the integers say that a rank holds: element numbers from 1, 0 for padding."""
    return np.maximum(elements(mesh, tensor.shape, tensor.nesting, tensor.placement, at) + 1, 0)


def place_of(mesh: Mesh, at: tuple[int, ...]) -> dict[str, int]:
    return dict(zip(mesh.names, at, strict=True))


def whole(mesh: Mesh, tensor: Tensor) -> Any:
    values = np.arange(1, math.prod(tensor.shape) + 1).reshape(tensor.shape)
    return whole_line(numpy_backend(), values, tensor, mesh)


@given(flat_tensors())
def test_a_whole_line_is_the_tensor_and_its_padding(made: tuple[Mesh, Tensor]) -> None:
    mesh, tensor = made
    line = whole(mesh, tensor)
    assert line[: tensor.num_elements].tolist() == list(range(1, tensor.num_elements + 1))
    assert len(line) == -(-tensor.num_elements // mesh.size(tensor.nesting)) * mesh.size(tensor.nesting)
    assert not line[tensor.num_elements :].any()


@given(flat_tensors())
def test_a_rank_holds_what_the_placement_means(made: tuple[Mesh, Tensor]) -> None:
    mesh, tensor = made
    for at in ranks_of(mesh):
        line = rearranged(
            numpy_backend(),
            whole(mesh, tensor),
            mesh,
            mesh.live(tensor.nesting),
            canonical(tensor, mesh),
            place_of(mesh, at),
        )
        assert line.tolist() == numbers_of(mesh, tensor, at).tolist()
        assert len(line) == tensor.local_elements(mesh)


@given(data=st.data(), mesh=meshes(), inside=st.integers(1, 3))
def test_rearranging_is_a_table_of_digits(data: st.DataObject, mesh: Mesh, inside: int) -> None:
    """Against a table that is walked digit by digit, with `inside` elements that no axis divides."""
    src = tuple(data.draw(st.lists(st.sampled_from(mesh.live(mesh.names) or ("none",)), unique=True)))
    assume("none" not in src)
    dst = tuple(data.draw(st.lists(st.sampled_from(src or ("none",)), unique=True)))
    assume("none" not in dst)
    rank = data.draw(st.integers(0, mesh.num_ranks - 1))
    at = coordinates(mesh, rank)
    table = {}
    for number, digits in enumerate(product(*(range(mesh[axis]) for axis in src))):
        table[digits] = list(range(number * inside, (number + 1) * inside))
    expected = []
    for digits in product(*(range(mesh[axis]) for axis in dst)):
        mine = {**at, **dict(zip(dst, digits, strict=True))}
        expected += table[tuple(mine[axis] for axis in src)]
    line = np.arange(len(table) * inside)
    for backend, given_line in ((numpy_backend(), line), (torch_backend(), torch_backend().array(line, "int64"))):
        assert rearranged(backend, given_line, mesh, src, dst, at).tolist() == expected


# ── what collectives ask for ──


def one_collective(mesh: Mesh, kind: CollectiveKind, axes: tuple[str, ...], src: Tensor, dst: Tensor) -> Schedule:
    op = Collective(
        kind=kind, name="move", axes=axes, src=(Ref(src.name),), dst=(Ref(dst.name),), codec=src.codec or Plain("fp64")
    )
    return Schedule(
        mesh=mesh,
        tensors={src.name: src, dst.name: dst},
        roles=(Role("all", (Call("step", 0, 0, (op,)),)),),
        pools={},
        meta={},
    )


def layouts(schedule: Schedule) -> Layouts:
    return layouts_of(schedule, expand(schedule, schedule.roles[0]))


def tensor_of(name: str, placement: Placement, shape: tuple[int, ...], nesting: tuple[str, ...]) -> Tensor:
    return Tensor(name=name, shape=shape, dtype="fp64", role="gathered", placement=placement, nesting=nesting)


@st.composite
def moved(draw: st.DrawFn) -> tuple[Mesh, tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[int, ...]]:
    """(mesh, nesting, axes that are flat before and after, axes that move, shape), on axes that are all alive."""
    mesh = Mesh(tuple((name, draw(st.integers(2, 3))) for name in NAMES))
    nesting = tuple(draw(st.permutations(NAMES)))
    moves = tuple(draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1)))
    stay = tuple(draw(st.lists(st.sampled_from(NAMES), unique=True)))
    shape = tuple(draw(st.lists(st.integers(1, 7), min_size=1, max_size=2)))
    return mesh, nesting, tuple(axis for axis in stay if axis not in moves), moves, shape


@given(moved())
def test_what_a_gather_fills_is_put_in_order(
    made: tuple[Mesh, tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[int, ...]],
) -> None:
    """The members' lines one after the other, in the order of the op's axes, are the line that the layout says."""
    mesh, nesting, stay, moves, shape = made
    a = tensor_of("a", flat((*stay, *moves)), shape, nesting)
    b = tensor_of("b", flat(stay), shape, nesting)
    known = layouts(one_collective(mesh, "all_gather", moves, a, b))
    assert known.order_of(Ref("a")) == canonical(a, mesh)
    assert known.order_of(Ref("b"))[: len(moves)] == moves
    assert known.pieces_of(Ref("b")) == mesh.size(moves) and known.pieces_of(Ref("a")) == 1
    at = ranks_of(mesh)
    for group in mesh.groups(moves):
        filled = np.concatenate([numbers_of(mesh, a, at[member]) for member in group])
        for member in group:
            mine = place_of(mesh, at[member])
            line = rearranged(numpy_backend(), filled, mesh, known.order_of(Ref("b")), canonical(b, mesh), mine)
            assert line.tolist() == numbers_of(mesh, b, at[member]).tolist()


@given(moved())
def test_what_a_scatter_takes_is_cut_into_the_members_pieces(
    made: tuple[Mesh, tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[int, ...]],
) -> None:
    mesh, nesting, stay, moves, shape = made
    a = tensor_of("a", partial(moves, stay), shape, nesting)
    b = tensor_of("b", flat((*stay, *moves)), shape, nesting)
    known = layouts(one_collective(mesh, "reduce_scatter", moves, a, b))
    assert known.pieces_of(Ref("a")) == mesh.size(moves)
    at = ranks_of(mesh)
    for group in mesh.groups(moves):
        for sender in group:
            line = numbers_of(mesh, a, at[sender])
            ready = rearranged(
                numpy_backend(),
                line,
                mesh,
                canonical(a, mesh),
                known.order_of(Ref("a")),
                place_of(mesh, at[sender]),
            )
            for piece, receiver in zip(ready.reshape(len(group), -1), group, strict=True):
                assert piece.tolist() == numbers_of(mesh, b, at[receiver]).tolist()


def test_what_cannot_be_executed_is_refused() -> None:
    mesh = Mesh((("p", 2),))
    cut = tensor_of("a", Placement(shards=(("p", 0),)), (4, 4), ())
    with pytest.raises(InputError, match="collective move: a is cut along a dimension by its axes; allowed"):
        layouts(one_collective(mesh, "all_gather", ("p",), cut, tensor_of("b", Placement(), (4, 4), ())))
