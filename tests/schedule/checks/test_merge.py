"""What the check says of values that are to be gathered and merged, where something is wrong with the way to it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from simfrontier.schedule import Call, Collective, Compute, Op, Ref, Schedule
from simfrontier.schedule.placement import REPLICATE, Placement, partial
from tests.plan.grids import megatron, schedule_of
from tests.schedule.mutations import changed, dropped, lines, mutated, says, where, with_tensor

PARTIAL, STACKED, WHOLE = "loss.pairs.partial", "loss.pairs.partial.stacked", "loss.pairs"


def made(**keys: Any) -> Schedule:
    return schedule_of(megatron(2, cross_entropy="mn-merge", **keys), 4)


GATHER = where("all_gather", touches=PARTIAL)
MERGED = where("merge")


def test_as_it_is_built_nothing_is_found() -> None:
    assert lines(made()) == []


def test_an_all_reduce_of_what_is_to_be_merged_is_found() -> None:
    """Sums of (m, n) pairs mean nothing."""

    def reduced(call: Call, op: Op) -> list[Op]:
        if not GATHER(call, op):
            return [op] if not MERGED(call, op) else []
        assert isinstance(op, Collective)
        return [replace(op, kind="all_reduce", dst=(Ref(WHOLE),))]

    says(mutated(made(), reduced), "all_reduce", f"{PARTIAL} gathered and merged over tensor", "found all_reduce")


def test_a_scatter_of_what_is_to_be_merged_is_found() -> None:
    cut = Placement((*made().tensors[PARTIAL].placement.shards, ("tensor", 1)))
    scattered = with_tensor(made(), STACKED, placement=cut, stacked=())
    says(
        mutated(scattered, changed(GATHER, kind="reduce_scatter")),
        f"{PARTIAL} gathered and merged over tensor",
        "found reduce_scatter",
    )


def test_a_gather_into_what_is_not_stacked_is_found() -> None:
    says(with_tensor(made(), STACKED, stacked=()), "all_gather", f"{STACKED} stacked over tensor", "not stacked")


def test_a_merge_of_what_is_not_stacked_is_found() -> None:
    says(with_tensor(made(), STACKED, stacked=()), "merge", f"{STACKED} stacked: contributions side by side")


def test_a_merge_into_what_is_stacked_is_found() -> None:
    says(with_tensor(made(), WHOLE, stacked=("tensor",)), "merge", f"{WHOLE} not stacked", "stacked over tensor")


def test_a_merge_that_accumulates_is_found() -> None:
    broken = mutated(made(), changed(MERGED, accumulates=(Ref(WHOLE),)))
    says(broken, "a merge that accumulates nothing", WHOLE)


def test_a_loss_that_reads_what_is_not_merged_yet_is_found() -> None:
    def early(call: Call, op: Op) -> list[Op]:
        if op.name != "loss":
            return [op]
        return [replace(op, reads=tuple(Ref(STACKED) if ref.name == WHOLE else ref for ref in op.reads))]

    says(mutated(made(), early), "loss", f"{STACKED} not stacked", "stacked over tensor")


def test_a_missing_merge_is_found() -> None:
    says(mutated(made(), dropped(MERGED)), "loss", WHOLE, "written")


def test_sums_that_are_left_where_pairs_are_made_are_found() -> None:
    """loss.pairs leaves what is to be merged; a schedule that takes it for a sum, or a maximum, is told."""
    placed = made().tensors[PARTIAL].placement
    for how in ("sum", "max"):
        other = replace(placed, partial=(("tensor", how),))  # type: ignore[arg-type]
        says(with_tensor(made(), PARTIAL, placement=other), "loss_pairs", f"{PARTIAL} as [", "partial(merge)] as a res")


def test_a_gather_over_axes_that_are_not_all_to_be_merged_is_found() -> None:
    def wider(call: Call, op: Op) -> list[Op]:
        return [replace(op, axes=("data", "tensor"))] if GATHER(call, op) else [op]  # type: ignore[call-arg]

    says(mutated(made(), wider), f"{PARTIAL} partial(merge) over data+tensor, the axes of the all_gather")


@pytest.mark.parametrize("kind", ["loss_online", "loss_pairs", "loss_own", "loss_exp", "loss_sum"])
def test_kinds_of_the_loss_are_work_of_the_model(kind: str) -> None:
    """An operand that does not lie as the op's cuts say is found, as of any other op."""
    way = {"loss_online": "one-gather", "loss_pairs": "mn-merge"}.get(kind, "three-all-reduces")
    sound = schedule_of(megatron(2, cross_entropy=way), 4)
    op = next(op for _, op in sound.roles[0].instances() if isinstance(op, Compute) and op.kind == kind)
    assert lines(sound) == []
    name = op.reads[0].name
    says(with_tensor(sound, name, placement=REPLICATE), kind, f"{name} as [")


def test_partial_merge_is_written_and_read_back() -> None:
    from simfrontier.schedule.placement import parse_placement

    assert parse_placement(str(partial(("tensor",), op="merge"))) == partial(("tensor",), op="merge")
