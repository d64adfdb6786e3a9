"""The mesh of a job out of the ranks of its groups."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.core.program import Mesh
from simfrontier.inputs.profiler.mesh import digits_of, mesh_of

SIZES = st.lists(st.integers(2, 4), min_size=1, max_size=4)


def test_groups_with_strides_of_1_and_4_of_8_ranks_make_two_axes() -> None:
    """[0 1 2 3] is stride 1, 4 ranks; [1 5] stride 4, 2 ranks: 2 × 4."""
    on = mesh_of(8, [([0, 1, 2, 3], "a"), ([1, 5], "b")])
    assert on.mesh.axes == (("axis0", 2), ("axis1", 4))
    assert on.axes([4, 5, 6, 7], "a") == ("axis1",) and on.axes([3, 7], "b") == ("axis0",)
    assert on.axes(range(8), "all") == ("axis0", "axis1")


@given(sizes=SIZES, data=st.data())
def test_the_groups_of_any_mesh_are_products_of_the_axes_that_they_make(sizes: list[int], data: st.DataObject) -> None:
    mesh = Mesh(tuple((f"m{i}", size) for i, size in enumerate(sizes)))
    every = [names for n in range(1, len(sizes) + 1) for names in combinations(mesh.names, n)]
    chosen = data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=3))
    order = data.draw(st.permutations(range(len(chosen))))
    groups = [group for place in order for group in mesh.groups(chosen[place]).tolist()]
    on = mesh_of(mesh.num_ranks, [(group, "trace") for group in groups])
    for names in chosen:
        for group in mesh.groups(names).tolist():
            made = on.mesh.groups(on.axes(group, "trace")).tolist()
            assert group in made  # in its own order


@given(sizes=SIZES, data=st.data())
def test_ranks_in_another_order_keep_it(sizes: list[int], data: st.DataObject) -> None:
    mesh = Mesh(tuple((f"m{i}", size) for i, size in enumerate(sizes)))
    axes = tuple(data.draw(st.permutations(mesh.names)))
    (group,) = mesh.groups(axes).tolist()
    on = mesh_of(mesh.num_ranks, [(group, "trace"), *((each, "") for a in axes for each in mesh.groups((a,)).tolist())])
    assert on.mesh.groups(on.axes(group, "trace")).tolist() == [group]


@pytest.mark.parametrize(
    ("num_ranks", "groups", "said"),
    [
        (8, [[0, 1, 3]], "a group of ranks 0, 1, 3; allowed: ranks at regular distances"),
        (8, [[0, 2, 1, 3, 4, 5]], "allowed: ranks at regular distances"),
        (8, [[0, 1, 2]], "groups whose ranks end at 3, of 8 ranks"),
        (12, [[0, 1], [0, 3, 6, 9]], "groups with strides of 2 and 3 ranks"),
    ],
)
def test_groups_that_make_no_mesh_are_one_line(num_ranks: int, groups: list[list[int]], said: str) -> None:
    with pytest.raises(InputError, match=said) as error:
        mesh_of(num_ranks, [(group, "trace.json") for group in groups])
    assert str(error.value).startswith("trace.json: ")


def test_the_devices_of_a_node_end_an_axis_where_they_fit() -> None:
    assert mesh_of(16, [(range(16), "")], [8]).mesh.axes == (("axis0", 2), ("axis1", 8))
    assert mesh_of(12, [(range(12), ""), ([0, 3, 6, 9], "")], [4]).mesh.axes == (("axis0", 4), ("axis1", 3))
    assert mesh_of(4, [(range(4), "")], [8]).mesh.axes == (("axis0", 4),)


def test_digits_are_the_fastest_first_and_joined() -> None:
    assert digits_of([0, 1, 4, 5], "") == ((1, 2), (4, 2))
    assert digits_of([0, 1, 2, 3], "") == ((1, 4),)
    assert digits_of([0, 4, 1, 5], "") == ((4, 2), (1, 2))
