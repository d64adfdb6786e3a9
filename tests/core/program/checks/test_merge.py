"""Findings of the checker for values that have to be gathered and merged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from simfrontier.core.program import Call, Collective, Op, Ref, Schedule
from tests.core.plan.grids import megatron, schedule_of
from tests.core.program.mutations import dropped, mutated, says, where, with_tensor

PARTIAL, STACKED, WHOLE = "loss.pairs.partial", "loss.pairs.partial.stacked", "loss.pairs"


def made(**keys: Any) -> Schedule:
    return schedule_of(megatron(2, cross_entropy="mn-merge", **keys), 4)


GATHER = where("all_gather", touches=PARTIAL)
MERGED = where("merge")


def test_an_all_reduce_of_what_is_to_be_merged_is_found() -> None:
    """Sums of (m, n) pairs mean nothing."""

    def reduced(call: Call, op: Op) -> list[Op]:
        if not GATHER(call, op):
            return [op] if not MERGED(call, op) else []
        assert isinstance(op, Collective)
        return [replace(op, kind="all_reduce", dst=(Ref(WHOLE),))]

    says(mutated(made(), reduced), "all_reduce", f"{PARTIAL} gathered and merged over tensor", "found all_reduce")


def test_a_merge_of_what_is_not_stacked_is_found() -> None:
    says(with_tensor(made(), STACKED, stacked=()), "merge", f"{STACKED} stacked: contributions side by side")


def test_a_loss_that_reads_what_is_not_merged_yet_is_found() -> None:
    def early(call: Call, op: Op) -> list[Op]:
        if op.name != "loss":
            return [op]
        return [replace(op, reads=tuple(Ref(STACKED) if ref.name == WHOLE else ref for ref in op.reads))]

    says(mutated(made(), early), "loss", f"{STACKED} not stacked", "stacked over tensor")


def test_a_missing_merge_is_found() -> None:
    says(mutated(made(), dropped(MERGED)), "loss", WHOLE, "written")
