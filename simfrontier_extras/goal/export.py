"""A simulated step as GOAL text, written rank by rank."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simfrontier.errors import InputError
from simfrontier.limits import Limit
from simfrontier.schedule import Compute, segmented_roles
from simfrontier.simulation import SimulatedStep, number_nodes
from simfrontier_extras.goal.calls import Calls
from simfrontier_extras.goal.rank_text import ANY, RankText, Step

RANKS: Final = Limit(most=128, what="ranks", why="as fidelity chunk: every message is a line at both its ends")
TRANSFERS: Final = Limit(
    most=1_000_000, what="transfers of all calls", why="each is some 200 bytes of text: a file of 200 MB"
)
LANES: Final = Limit(most=256, what="lanes", why="LogGOPSim numbers the CPUs of a rank in one byte")


def write_step(plan: str, step: SimulatedStep, folder: Path) -> str:
    """Write PLAN.goal; what it holds, in a line. Raises InputError for a step that is too large or cannot be said."""
    try:
        facts = step_of(step)
    except InputError as error:
        raise error.within(when=f"plan {plan}") from None
    num_ranks = len(facts.rank_class)
    texts = [RankText(facts, rank) for rank in range(num_ranks)]
    with (folder / f"{plan}.goal").open("w", encoding="ascii", newline="\n") as file:
        file.write(f"num_ranks {num_ranks}\n")
        for text in texts:
            file.writelines(text.lines())
    sends, calcs = sum(text.num_sends for text in texts), sum(text.num_calcs for text in texts)
    num_bytes = sum(text.num_bytes for text in texts)
    return f"{plan}.goal: {num_ranks} ranks, {sends:,} messages of {num_bytes:,} bytes in all, {calcs:,} calculations"


def step_of(step: SimulatedStep) -> Step:
    """What is written of a step: programs of roles, tags of calls, times of kernels. Raises InputError."""
    cluster, schedule = step.cluster, step.schedule
    _refuse(RANKS, schedule.mesh.num_ranks)
    parts = segmented_roles(schedule, whole=False)
    nodes, calls = number_nodes(parts, cluster), Calls(cluster)
    tags: dict[int, int] = {}
    lanes: dict[str, int] = {}
    alone_s: dict[int, list[float]] = {}
    next_tag = num_transfers = 0
    for part, keys in zip(parts, nodes.keys, strict=True):
        for op, key in zip(part.program.ops, keys, strict=True):
            lanes.setdefault(op.lane, len(lanes))
            if isinstance(op, Compute):
                if op.number not in alone_s:
                    priced = cluster.of(op)
                    own = cluster.folding.activity_of(priced.pattern).tolist()
                    alone_s[op.number] = [priced.works[each].alone_s for each in own]
            elif key not in tags:
                groups = calls.of(op)
                tags[key] = next_tag
                next_tag += max(group.num_transfers for group in groups)
                num_transfers += sum(group.num_transfers for group in groups)
                _refuse(TRANSFERS, num_transfers)
    _refuse(LANES, len(lanes))
    assert next_tag < ANY
    return Step(
        programs=tuple(part.program for part in parts),
        keys=nodes.keys,
        rank_class=tuple(cluster.folding.rank_class.tolist()),
        role_of=tuple(cluster.role_of.tolist()),
        calls=calls,
        tags=tags,
        lanes=lanes,
        alone_s=alone_s,
    )


def _refuse(limit: Limit, got: int) -> None:
    if fault := limit.fault(got):
        raise InputError(fault, where="--format goal")
