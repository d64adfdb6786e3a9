"""Lanes: which moves and ops run concurrently with a rank's compute."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from simfrontier.core.plan.plan import Purpose
from simfrontier.core.plan.program import Item, Move, Program, StreamWait
from simfrontier.core.program import Compute, Ref

Numbered = list[tuple[int, Item]]

LANE_OF: dict[Purpose, str] = {
    "weight_gather": "gather",
    "copy_gather": "gather",
    "publish": "gather",
    "gradient": "reduce",
    "step_reduction": "reduce",
    "scalar": "reduce",
    "input_gradient": "tensor",
    "input_gather": "tensor",
    "statistic": "statistic",
}


def overlap(program: Program, purposes: Iterable[Purpose]) -> Program:
    """Give moves, and the waits of streams before them, lanes of their own, so that the compute lane goes on beside
    them: AxoNN's OAR is this pass for `input_gradient`, its ORS for `gradient`, the second half of its OAG for
    `weight_gather`."""
    chosen = frozenset(purposes)
    return program.with_items(
        [
            (number, replace(item, lane=LANE_OF[item.purpose]))
            if isinstance(item, Move | StreamWait) and item.purpose in chosen
            else (number, item)
            for number, item in program.items()
        ]
    )


def statistics_beside(program: Program) -> Program:
    """Let what is gathered of all samples, and the ops that take it in, run beside everything else: only the next step
    reads what they make."""
    items = list(program.items())
    lane = LANE_OF["statistic"]
    moved = {ref for _, item in items if isinstance(item, Move) and item.purpose == "statistic" for ref in item.dst}
    out: Numbered = []
    for number, item in items:
        is_move = isinstance(item, Move) and item.purpose == "statistic"
        if isinstance(item, Move | Compute) and (is_move or not moved.isdisjoint(_read_by(item))):
            item = replace(item, lane=lane)
        out.append((number, item))
    return program.with_items(out)


def _read_by(item: Move | Compute) -> tuple[Ref, ...]:
    return item.src if isinstance(item, Move) else item.reads
