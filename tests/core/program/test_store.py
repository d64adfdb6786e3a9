"""The stored form of schedules: round trip, size, digest, loops and runs of operands."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.core.program import Call, Compute, Ref, Role, Schedule, digest, from_json, store, to_json
from simfrontier.core.program.loops import Loop, expanded, folded, num_ops, refs_of_run, runs_of_refs
from simfrontier.core.trace import perfetto
from simfrontier.core.workload import Checkpointing
from tests.core.program.builders import ENGINES, frontier_20b, mesh_of, options_of, schedule_of

OPS = (Compute(kind="add", name="one"), Compute(kind="add", name="two"))
FAMILIES = ("ddp", "zero1", "zero2", "zero3", "hsdp", "zeropp", "zero-topo")


def small() -> Schedule:
    return schedule_of(options_of("zeropp"), mesh_of(2, 2, 2), grad_accum=2)


def test_formats_of_files_keep_their_names() -> None:
    """Files that were written before are read, and digests stay."""
    assert (
        *("simfrontier.schedule", 2),
        *("simfrontier.trace", 1),
    ) == (store.FORMAT, store.VERSION, perfetto.FORMAT, perfetto.VERSION)


def num_blocks(schedule: Schedule) -> int:
    return len({call.block for role in schedule.roles for call in role.calls})


@settings(max_examples=15, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    sizes=st.tuples(st.sampled_from([1, 2, 3]), st.sampled_from([1, 4]), st.sampled_from([1, 2])),
    engine=st.sampled_from(sorted(ENGINES)),
    grad_accum=st.integers(1, 4),
    checkpointing=st.sampled_from(["full", "none"]),
    num_layers=st.integers(1, 6),
)
def test_what_is_read_back_is_equal_and_shares_its_blocks(
    family: str,
    sizes: tuple[int, int, int],
    engine: str,
    grad_accum: int,
    checkpointing: Checkpointing,
    num_layers: int,
) -> None:
    made = schedule_of(
        options_of(family), mesh_of(*sizes), ENGINES[engine], grad_accum, checkpointing, num_layers=num_layers
    )
    text = to_json(made)
    read = from_json(text, "s.json")
    assert read == made
    assert num_blocks(read) == num_blocks(made)
    assert to_json(read) == text


@pytest.mark.parametrize("family", ["zero3", "zero-topo"])
def test_size_grows_neither_with_layers_nor_with_micro_batches(family: str) -> None:
    def size(num_layers: int, grad_accum: int) -> int:
        return len(to_json(frontier_20b(family, num_layers, grad_accum)))

    assert size(88, 1) == pytest.approx(size(44, 1), rel=0.02)
    assert size(10, 16) == pytest.approx(size(10, 2), rel=0.02)


def test_digest_depends_on_neither_construction_order_nor_sharing() -> None:
    schedule = small()
    (role,) = schedule.roles
    unshared = tuple(Call(c.label, c.layer, c.micro, tuple(replace(op) for op in c.ops)) for c in role.calls)
    other = replace(
        schedule,
        tensors=dict(sorted(schedule.tensors.items(), reverse=True)),
        meta=dict(sorted(schedule.meta.items(), reverse=True)),
        roles=(Role(role.name, unshared),),
    )
    assert other == schedule
    assert digest(other) == digest(schedule)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 2), st.integers(0, 1)), max_size=40))
def test_loops_mean_the_same_calls(calls: list[tuple[str, int, int]]) -> None:
    made = [Call(label, layer, layer % 2, OPS, block) for label, block, layer in calls]
    items = folded(made, range(3))
    assert list(expanded(items)) == made and [call.block for call in expanded(items)] == [call.block for call in made]
    assert num_ops(items) == 2 * len(made) and len(items) <= len(made)


def test_a_pass_over_layers_and_one_over_micro_batches_are_loops() -> None:
    """Forwards up the layers, backwards down, and that for each micro-batch; the second backward is another block."""
    made = []
    for micro in range(4):
        made += [Call("forward", layer, micro, (), 0) for layer in range(6)]
        made += [Call("backward", layer, micro, (), 1 if layer else 2) for layer in reversed(range(6))]
    up, down = Loop(6, (made[0],), 1, 0), Loop(5, (made[6],), -1, 0)
    assert folded(made, range(3)) == (Loop(4, (up, down, made[11]), 0, 1),)
    assert folded(made, (0, 1, 1)) == (Loop(4, (up, Loop(6, (made[6],), -1, 0)), 0, 1),)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 3)), min_size=14, max_size=60))
def test_runs_mean_the_same_operands(refs: list[tuple[str, int]]) -> None:
    made = tuple(Ref(name, layer) for name, layer in refs)
    again = [ref for part in runs_of_refs(made) for ref in ([part] if isinstance(part, Ref) else refs_of_run(part))]
    assert tuple(again) == made
