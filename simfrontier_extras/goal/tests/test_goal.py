"""`simfrontier export --format goal`: the text is GOAL, every message has both ends, and nothing waits for ever."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.core.collectives import lower
from simfrontier.core.engine import Fidelity, SimulatedStep
from simfrontier.core.engine.calls import CallPlans
from simfrontier.core.program import Compute
from simfrontier.inputs.scenario import load_scenario
from simfrontier_extras.goal import export_formats as export
from simfrontier_extras.goal.calls import Sent, _sent
from simfrontier_extras.goal.export_formats import write_step
from simfrontier_extras.goal.tests.goal_reader import left_over, read, unmatched
from tests.core.collectives.lowering_runs import recipe
from tests.invoke import TOY, invoke

PIPED = {"plans.megatron.tensor": 2, "plans.megatron.pipeline": 2, "training.grad_accum": 2}
GRID = {"plans.axonn.x": 2, "plans.axonn.y": 2, "plans.axonn.z": 2}
NONE: dict[str, int] = {}
SCENARIO = load_scenario(TOY)
CASES = (("zero3", NONE), ("zeropp", NONE), ("zero-topo", NONE), ("ddp", NONE), ("megatron", PIPED), ("axonn", GRID))


def step_of(
    plan: str, settings: Mapping[str, Any] = NONE, size: int = 8, fidelity: Fidelity = "chunk"
) -> SimulatedStep:
    scenario = load_scenario(TOY, settings, plans=(plan,), devices=(size,))
    return simulated(scenario, ScheduleCache().get(scenario, plan, size), fidelity, False)


@pytest.mark.parametrize(("plan", "settings"), CASES)
def test_every_message_has_both_ends_and_every_op_ends(plan: str, settings: Mapping[str, int], tmp_path: Path) -> None:
    write_step(SCENARIO, plan, step_of(plan, settings), tmp_path)
    ranks = read((tmp_path / f"{plan}.goal").read_text())
    assert unmatched(ranks) == []
    assert left_over(ranks) == 0


@pytest.mark.parametrize(("plan", "settings"), CASES)
def test_bytes_and_times_are_those_of_fidelity_chunk(plan: str, settings: Mapping[str, int], tmp_path: Path) -> None:
    step = step_of(plan, settings)
    write_step(SCENARIO, plan, step, tmp_path)
    ranks = read((tmp_path / f"{plan}.goal").read_text())
    sent = sum(node.amount for nodes in ranks for node in nodes.values() if node.way == "send")
    classes = step.pricing.folding.rank_class.tolist()
    plans, messages = CallPlans(step.pricing), 0.0
    for rank, cls in enumerate(classes):
        for op in step.view(cls).ops:
            if not isinstance(op, Compute):
                group, member = plans.place(op, rank)
                for plan in plans.planned(op, group).plans:
                    ends = zip(plan.form.src, plan.form.dst, plan.sizes, strict=True)
                    messages += sum(size for src, dst, size in ends if src == member != dst)
    assert sent == messages
    for rank, cls in enumerate(classes):
        alone = 0.0
        for op in step.view(cls).ops:
            if isinstance(op, Compute):
                alone += step.pricing.work_of(op, cls).alone_s
        nodes = ranks[rank].values()
        count = sum(1 for op in step.view(cls).ops if isinstance(op, Compute))
        written = sum(node.amount for node in nodes if node.way == "calc")
        assert written == pytest.approx(alone * 1e9, abs=count / 2 + 1)


def test_a_rank_waits_as_its_program_does(tmp_path: Path) -> None:
    step = step_of("zero3")
    write_step(SCENARIO, "zero3", step, tmp_path)
    nodes = read((tmp_path / "zero3.goal").read_text())[3]
    program = step.view(int(step.pricing.folding.rank_class[3])).program
    end = [("c" if isinstance(op, Compute) else "e") + str(index) for index, op in enumerate(program.ops)]
    for index, (op, before) in enumerate(zip(program.ops, program.before, strict=True)):
        begin = f"c{index}" if isinstance(op, Compute) else f"b{index}"
        assert nodes[begin].waits == list(dict.fromkeys(end[other] for other in before))


@pytest.mark.parametrize(("plan", "settings"), [CASES[0], CASES[4]])
def test_ranks_that_were_simulated_as_one_are_written_one_by_one(
    plan: str, settings: Mapping[str, int], tmp_path: Path
) -> None:
    for fidelity in ("flow", "chunk"):
        write_step(SCENARIO, plan, step_of(plan, settings, fidelity=fidelity), tmp_path)
        (tmp_path / f"{plan}.goal").rename(tmp_path / fidelity)
    assert (tmp_path / "flow").read_text() == (tmp_path / "chunk").read_text()


def test_a_ring_of_three_by_hand() -> None:
    # an all-gather of 12 bytes, 4 from each member: 0 -> 1 -> 2 -> 0, first the own piece, then the one that came
    sent = _sent(lower("all_gather", recipe("ring", 3)), 12, 4)
    assert [(each.src, each.dst, each.num_bytes) for each in sent] == [(a, (a + 1) % 3, 4) for a in (0, 1, 2, 0, 1, 2)]
    assert [each.after for each in sent] == [(), (), (), (2,), (0,), (1,)]
    assert isinstance(sent[0], Sent)


def test_what_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("export", TOY, "--devices", "8", "--plans", "zero3", "--format", "goal", "--out", tmp_path / "out")
    for name, said in (
        ("RANKS", "8 ranks; allowed: up to 7"),
        ("TRANSFERS", "transfers of all calls; allowed: up to 7"),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(export, name, replace(getattr(export, name), most=7))
            refused = invoke(*command)
        assert refused.code == 2 and said in refused.err and not (tmp_path / "out").exists()
