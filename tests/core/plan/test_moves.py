"""Moves between placements, executed on integers for every rank and element."""

import math
from itertools import permutations

import numpy as np
from hypothesis import assume, event, given, settings, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.core.codecs import Plain
from simfrontier.core.plan.moves import Hop, MoveStep, steps_of
from simfrontier.core.program.mesh import Mesh
from simfrontier.core.program.placement import REPLICATE, Placement, flat, partial
from tests.core.plan.executor import World, execute

FP16 = Plain("fp16")
NODE2 = Mesh((("node", 2), ("package", 4), ("gcd", 2)))
ALL, IN_NODE, REVERSED = ("node", "package", "gcd"), ("package", "gcd"), ("gcd", "package", "node")


def hops(*axes: tuple[str, ...]) -> tuple[Hop, ...]:
    return tuple(Hop(group, FP16) for group in axes)


def prove(
    mesh: Mesh,
    shape: tuple[int, ...],
    nesting: tuple[str, ...],
    src: Placement,
    dst: Placement,
    route: tuple[Hop, ...],
    exact: bool = True,
) -> tuple[MoveStep, ...]:
    """Run the steps and compare after each; the permute flag is true exactly (else: at least) where order differs."""
    steps = steps_of(mesh, nesting, src, dst, route, "w")
    live = mesh.live(nesting)
    world = World(mesh, shape, live, src.on(mesh))
    held = world.state(src.on(mesh))
    now = src.on(mesh)
    for step in steps:
        assert step.src == now
        held, moved = execute(world, step, held)
        for rank, (ids, values) in held.items():
            want_ids, want_values = world.buffer(step.dst, rank)
            if ids.size != want_ids.size:  # shards changed: the block is padded anew
                want_ids, want_values = want_ids[want_ids >= 0], want_values[want_ids >= 0]
            assert np.array_equal(ids, want_ids), (step, rank)
            assert np.array_equal(values, want_values), (step, rank)
        assert step.permute == moved if exact else step.permute or not moved, step
        held, now = world.state(step.dst), step.dst
    assert now == dst.on(mesh)
    return steps


def shown(steps: tuple[MoveStep, ...]) -> list[str]:
    return [f"{step.kind} {'+'.join(step.axes)}{' permute' if step.permute else ''}" for step in steps]


# ── by hand: the moves of the named plans ──


def test_zero3_gathers_and_scatters_in_place() -> None:
    assert shown(prove(NODE2, (6, 16), ALL, flat(ALL), REPLICATE, hops(ALL))) == ["all_gather node+package+gcd"]
    assert shown(prove(NODE2, (6, 16), ALL, partial(ALL), flat(ALL), hops(ALL))) == ["reduce_scatter node+package+gcd"]


def test_qgz_needs_a_reordering_for_rank_major_nesting_only() -> None:
    steps = prove(NODE2, (6, 16), ALL, partial(ALL), flat(ALL), hops(IN_NODE, ("node",)))
    assert shown(steps) == ["reduce_scatter package+gcd permute", "reduce_scatter node"]
    steps = prove(NODE2, (6, 16), (*IN_NODE, "node"), partial(ALL), flat(ALL), hops(IN_NODE, ("node",)))
    assert shown(steps) == ["reduce_scatter package+gcd", "reduce_scatter node"]


def test_zero_topo_never_reorders() -> None:
    accumulator = partial(("node",), ("gcd", "package"))
    assert shown(prove(NODE2, (97,), REVERSED, flat(("gcd",)), REPLICATE, hops(ALL))) == ["all_gather gcd"]
    assert shown(prove(NODE2, (97,), REVERSED, partial(ALL), accumulator, hops(ALL))) == ["reduce_scatter gcd+package"]
    assert shown(prove(NODE2, (97,), REVERSED, accumulator, flat(ALL), hops(ALL))) == ["reduce_scatter node"]
    publish = prove(NODE2, (97,), REVERSED, flat(ALL), flat(("gcd",)), hops(("node",), IN_NODE))
    assert shown(publish) == ["all_gather node", "all_gather package"]


def test_axes_of_size_one_vanish() -> None:
    one_node = Mesh((("node", 1), ("package", 4), ("gcd", 2)))
    accumulator = partial(("node",), ("gcd", "package"))
    assert steps_of(one_node, REVERSED, accumulator, flat(ALL), (), "w") == ()
    steps = prove(one_node, (97,), ALL, partial(ALL), flat(ALL), hops(IN_NODE, ("node",)))
    assert shown(steps) == ["reduce_scatter package+gcd"]


def test_hierarchical_gather_crosses_its_first_axis_first() -> None:
    route = (Hop(("node", "package", "gcd"), FP16, "hierarchical"),)
    gathered = prove(NODE2, (97,), ALL, flat(ALL), REPLICATE, route)
    assert shown(gathered) == ["all_gather node", "all_gather package+gcd permute"]
    scattered = prove(NODE2, (97,), ALL, partial(ALL), flat(ALL), route)
    assert shown(scattered) == ["reduce_scatter package+gcd permute", "reduce_scatter node"]


def test_hierarchical_all_reduce_scatters_inside_and_gathers_again() -> None:
    route = (Hop(("node", "package", "gcd"), FP16, "hierarchical"),)
    steps = prove(NODE2, (97,), IN_NODE, partial(ALL), REPLICATE, route)
    assert shown(steps) == ["reduce_scatter package+gcd", "all_reduce node", "all_gather package+gcd"]


def test_tensor_parallel_moves() -> None:
    mesh = Mesh((("data", 2), ("z", 2), ("y", 2), ("x", 2)))
    cut = Placement((("x", 1), ("y", 0)), frozenset("z"))
    assert shown(prove(mesh, (8, 12), ("z",), cut, Placement(cut.shards), hops(("z",)))) == ["all_gather z"]
    raw = Placement(cut.shards, partial=(("data", "sum"), ("z", "sum")))
    steps = prove(mesh, (8, 12), ("z",), raw, cut, hops(("z",), ("data",)))
    assert shown(steps) == ["reduce_scatter z", "all_reduce data"]
    sequence, hidden = Placement((("x", 0),)), Placement((("x", 2),))
    assert shown(prove(mesh, (8, 4, 8), (), sequence, hidden, hops(("x",)))) == ["all_to_all x permute"]
    assert shown(prove(mesh, (8, 4, 8), (), sequence, REPLICATE, hops(("x",)))) == ["all_gather x"]
    assert shown(prove(mesh, (8, 4, 8), (), hidden, REPLICATE, hops(("x",)))) == ["all_gather x permute"]
    pending = Placement(partial=(("x", "sum"),))
    assert shown(prove(mesh, (8, 4, 8), (), pending, sequence, hops(("x",)))) == ["reduce_scatter x"]
    assert shown(prove(mesh, (8, 4, 8), (), pending, hidden, hops(("x",)))) == ["reduce_scatter x permute"]


def test_reduced_shards_come_before_flat_digits() -> None:
    mesh = Mesh((("x", 2), ("z", 3)))
    src, dst = partial(("x", "z")), Placement((("x", 0),), frozenset("z"))
    assert shown(prove(mesh, (4, 5), ("z",), src, dst, hops(("x", "z")))) == ["reduce_scatter x", "reduce_scatter z"]


def test_all_axes_in_any_nesting_and_any_order_of_hops() -> None:
    for nesting in permutations(ALL):
        for order in permutations(ALL):
            route = hops(*((axis,) for axis in order))
            prove(NODE2, (53,), nesting, flat(ALL), REPLICATE, route)
            prove(NODE2, (53,), nesting, partial(ALL), flat(ALL), route)


# ── any mesh, nesting, placements and hops ──


@st.composite
def meshes(draw: st.DrawFn) -> Mesh:
    sizes = draw(st.lists(st.sampled_from((2, 3, 2, 4, 1)), min_size=1, max_size=4))
    assume(math.prod(sizes) <= 48)
    return Mesh(tuple((f"a{i}", size) for i, size in enumerate(sizes)))


@st.composite
def routes(draw: st.DrawFn, mesh: Mesh) -> tuple[Hop, ...]:
    """The mesh's axes in any order, cut into hops anywhere."""
    axes = draw(st.permutations(mesh.names))
    out, group = [], [axes[0]]
    for axis in axes[1:]:
        if draw(st.booleans()):
            out.append(group)
            group = []
        group.append(axis)
    vias: tuple[str, ...] = ("library", "ring", "hierarchical")
    return tuple(Hop(tuple(group), FP16, draw(st.sampled_from(vias))) for group in (*out, group))


FLAT_CHANGES = ("RR", "RF", "FF", "FR", "PP", "PR", "PF")  # per axis: replicated, flat, partial, before and after


def placed(changes: dict[str, str], when: int) -> Placement:
    state = {axis: change[when] for axis, change in changes.items()}
    shards = tuple((axis, int(s)) for axis, s in state.items() if s.isdigit())
    return Placement(
        shards,
        frozenset(axis for axis, s in state.items() if s == "F"),
        tuple((axis, "sum") for axis, s in state.items() if s == "P"),
    )


@settings(deadline=None, max_examples=100)
@given(st.data())
def test_any_flat_move_has_a_way_and_does_what_the_placements_say(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    changes = {axis: data.draw(st.sampled_from(FLAT_CHANGES)) for axis in mesh.names}
    nesting = tuple(data.draw(st.permutations(mesh.names)))
    shape = (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 23)))
    steps = prove(mesh, shape, nesting, placed(changes, 0), placed(changes, 1), data.draw(routes(mesh)))
    event(f"{len(steps)} steps")


@settings(deadline=None, max_examples=150)
@given(st.data())
def test_any_move_with_shards_is_right_or_refused(data: st.DataObject) -> None:
    mesh = data.draw(meshes())
    states = st.sampled_from(("R", "F", "P", "0", "1"))
    changes = {axis: data.draw(states) + data.draw(states) for axis in mesh.names}
    assume(any(state.isdigit() for change in changes.values() for state in change))
    nesting = tuple(data.draw(st.permutations([axis for axis, change in changes.items() if "F" in change])))
    per_dim = [math.prod(mesh[a] for a, change in changes.items() if str(dim) in change) for dim in (0, 1)]
    shape = tuple(size * data.draw(st.integers(2, 3)) for size in per_dim)
    src, dst, route = placed(changes, 0), placed(changes, 1), data.draw(routes(mesh))
    try:
        steps_of(mesh, nesting, src, dst, route, "w")
    except InputError as refused:
        event(str(refused).split("[")[0])
        return
    event("moved")
    prove(mesh, shape, nesting, src, dst, route, exact=False)
