"""The format `goal` of `simfrontier export`: a simulated step as GOAL text, written rank by rank."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from simfrontier.answers.study import ExportFormat
from simfrontier.base.errors import InputError
from simfrontier.base.limits import Limit
from simfrontier.core.engine import CallKey, SimulatedStep, walks_of
from simfrontier.core.program import Compute
from simfrontier.inputs.scenario import Scenario
from simfrontier_extras.goal.calls import Calls
from simfrontier_extras.goal.rank_text import ANY, RankText, WrittenStep

RANKS: Final = Limit(most=128, what="ranks", why="as fidelity chunk: every message is a line at both its ends")
TRANSFERS: Final = Limit(
    most=1_000_000, what="transfers of all calls", why="each is some 200 bytes of text: a file of 200 MB"
)
LANES: Final = Limit(most=256, what="lanes", why="LogGOPSim numbers the CPUs of a rank in one byte")


def write_step(scenario: Scenario, plan: str, step: SimulatedStep, folder: Path) -> str:
    """Write PLAN.goal; return its contents in a line. Raises InputError for a step that is too large."""
    try:
        facts = step_of(step)
    except InputError as error:
        raise error.within(when=f"plan {plan}") from None
    num_ranks = len(facts.walks)
    texts = [RankText(facts, rank) for rank in range(num_ranks)]
    with (folder / f"{plan}.goal").open("w", encoding="ascii", newline="\n") as file:
        file.write(f"num_ranks {num_ranks}\n")
        for text in texts:
            file.writelines(text.lines())
    sends, calcs = sum(text.num_sends for text in texts), sum(text.num_calcs for text in texts)
    num_bytes = sum(text.num_bytes for text in texts)
    return f"{plan}.goal: {num_ranks} ranks, {sends:,} messages of {num_bytes:,} bytes in all, {calcs:,} calculations"


def step_of(step: SimulatedStep) -> WrittenStep:
    """Return the walks of ranks, tags of calls and CPUs of lanes of a step. Raises InputError."""
    _refuse(RANKS, step.schedule.mesh.num_ranks)
    walks, calls = walks_of(step), Calls(step.pricing)
    tags: dict[CallKey, int] = {}
    lanes: dict[str, int] = {}
    next_tag = num_transfers = 0
    for role in step.roles:
        walk = walks[role.classes[0]]
        for op, key in zip(walk.ops, walk.keys, strict=True):
            lanes.setdefault(op.lane, len(lanes))
            if not isinstance(op, Compute) and key not in tags:
                groups = calls.of(op)
                tags[key] = next_tag
                next_tag += max(group.num_transfers for group in groups)
                num_transfers += sum(group.num_transfers for group in groups)
                _refuse(TRANSFERS, num_transfers)
    _refuse(LANES, len(lanes))
    assert next_tag < ANY
    return WrittenStep(
        walks=tuple(walks[cls] for cls in step.pricing.folding.rank_class.tolist()),
        calls=calls,
        tags=tags,
        lanes=lanes,
    )


def _refuse(limit: Limit, got: int) -> None:
    if fault := limit.fault(got):
        raise InputError(fault, where="--format goal")


ADDS = (
    ExportFormat(
        name="goal",
        sentence="GOAL text of the whole step for LogGOPSim (txt2bin), collectives as single messages",
        write=write_step,
    ),
)
