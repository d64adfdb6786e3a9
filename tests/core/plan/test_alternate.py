"""Passes of DualPipeV that overlap: each one's communication runs during the other one's computation."""

from __future__ import annotations

from itertools import groupby

from simfrontier.core.engine import passed
from simfrontier.core.plan.alternate import LANE
from simfrontier.core.program import Collective, Compute, ExpandedProgram, check, expand
from tests.core.plan.grids import megatron, other, schedule_of


def last_stage(order: str) -> ExpandedProgram:
    """The last of two stages, with a layer in each of its two chunks and no head; two ranks share each product, and
    all-reduce its result, or the gradient of its input."""
    options = megatron(2, 2, order=order, chunks=2, overlap_input_gradients=False)
    made = schedule_of(options, 4, shape=other(num_layers=4), micros=6, checkpointing="none")
    report = check(made)
    assert report.is_clean, str(report)
    return expand(made, made.roles[1])


def waits(program: ExpandedProgram) -> list[int]:
    """For how many time units the stage waits for all-reduces between two exchanges, if each all-reduce and each op
    takes one."""
    times = [0.0 if op.kind == "exchange" else 1.0 for op in program.ops]
    start, end = passed(program.before, times)
    out = []
    between = groupby(range(program.num_ops), key=lambda at: program.calls[at].label in ("forward", "backward"))
    for run in [list(run) for is_layer, run in between if is_layer]:
        computed = [at for at in run if isinstance(program.ops[at], Compute)]
        out.append(round(end[computed[-1]] - start[computed[0]]) - len(computed))
    return out


def test_overlapped_passes_hide_all_communication() -> None:
    """Six micro-batches; two all-reduces in each pass, for which a pass alone waits. What the two chunks of the last
    stage give one another is no exchange, so between exchanges are: twice F0 F1; F0; B1, which overlaps with nothing,
    and F1&B0; three times F0&B1 F1&B0; B1 B0; I1 I0. In the seven pairs every all-reduce runs beside the other pass."""
    program = last_stage("dualpipev")
    hidden = [at for at, op in enumerate(program.ops) if op.lane == LANE]
    assert len(hidden) == 7 * 4 and all(isinstance(program.ops[at], Collective) for at in hidden)
    assert waits(program) == [4, 4, 2, 2, 0, 0, 0, 4, 4]
