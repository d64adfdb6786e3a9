"""`simfrontier export --format chakra`: traces that generated code reads, whose calls meet, and that last as long."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.core.collectives import exchanged_bytes, message_bytes
from simfrontier.core.engine import SimulatedStep, trace_notes
from simfrontier.core.program import Collective, Exchange, Schedule
from simfrontier.inputs.scenario import load_scenario
from simfrontier_extras.chakra.export_formats import write_traces
from simfrontier_extras.chakra.nodes import COMM_TYPES
from simfrontier_extras.chakra.tests.replays import longest_path_s
from simfrontier_extras.chakra.tests.traces import (
    COLL,
    COMP,
    RECV,
    SEND,
    Traces,
    faults,
    generated,
    read,
    read_one,
    sent_bytes,
)
from tests.invoke import ROOT, TOY, invoke

TWENTY_B = ROOT / "scenarios" / "frontier-20b.toml"
GRIDS = """
name = "grids"
title = "Grids and pipelines of a tiny model"
[machine]
name = "toy-cluster"
[model]
name = "tiny"
num_layers = 4
[training]
micro_batch = 2
grad_accum = 4
[run]
devices = [8]
[plans.1f1b]
family = "megatron"
pipeline = 2
tensor = 2
[plans.gpipe]
family = "megatron"
pipeline = 4
order = "gpipe"
[plans.interleaved]
family = "megatron"
pipeline = 2
chunks = 2
order = "interleaved"
sequence_parallel = true
tensor = 2
[plans.axonn]
x = 2
y = 2
pipeline = 2
"""
TOY_PLANS = ("zero3", "ddp", "hsdp", "zeropp", "zero-topo")
GRID_PLANS = ("1f1b", "interleaved", "axonn")


@pytest.fixture(scope="module")
def code(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The code that protoc generates."""
    return generated(tmp_path_factory.mktemp("generated"))


Made = tuple[SimulatedStep, Traces]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, code: Any) -> Callable[[str, str], Made]:
    """The simulated step of a plan on 8 ranks and its traces, by scenario and plan."""
    folder = tmp_path_factory.mktemp("traces")
    grids = folder / "grids.toml"
    grids.write_text(GRIDS, encoding="utf-8")
    scenarios = {"toy": load_scenario(TOY), "grids": load_scenario(grids)}
    known: dict[tuple[str, str], Made] = {}

    def one(scenario: str, plan: str) -> Made:
        if (scenario, plan) not in known:
            loaded = scenarios[scenario]
            step = simulated(loaded, ScheduleCache().get(loaded, plan, 8), "analytic", False)
            write_traces(loaded, plan, step, folder)
            known[scenario, plan] = step, read(folder, plan, code)
        return known[scenario, plan]

    return one


plans = pytest.mark.parametrize(
    ("scenario", "plan"), [("toy", plan) for plan in TOY_PLANS] + [("grids", plan) for plan in GRID_PLANS]
)


@plans
def test_generated_code_reads_traces_without_a_fault(
    made: Callable[[str, str], Made], scenario: str, plan: str
) -> None:
    step, traces = made(scenario, plan)
    assert sorted(traces.nodes) == list(range(8))
    assert faults(traces) == []
    assert list(traces.groups) == [str(number) for number in range(1, len(traces.groups) + 1)]
    assert {each["plan"] for each in traces.metadata.values()} == {plan}
    assert {each["mesh"] for each in traces.metadata.values()} == {trace_notes(step)["mesh"]}


@plans
def test_a_replay_takes_as_long_as_the_step(made: Callable[[str, str], Made], scenario: str, plan: str) -> None:
    step, traces = made(scenario, plan)
    assert longest_path_s(traces) == pytest.approx(step.step_s, rel=1e-9)


@plans
def test_bytes_are_those_of_the_schedule(made: Callable[[str, str], Made], scenario: str, plan: str) -> None:
    step, traces = made(scenario, plan)
    schedule, expected, messages = step.schedule, Counter[int](), 0
    for rank in range(8):
        role = schedule.roles[int(step.pricing.role_of[step.pricing.folding.rank_class[rank]])]
        for _, op in role.instances():
            if isinstance(op, Collective):
                expected[COMM_TYPES[op.wire_kind]] += brought(op, schedule)
            elif isinstance(op, Exchange):
                there, back = exchanged_bytes(op, schedule.tensors, schedule.mesh)
                assert role.at is not None
                messages += there if role.at[1] == op.ends[0] else back
    assert sent_bytes(traces) == expected
    sent = [node for nodes in traces.nodes.values() for node in nodes if node.type == SEND]
    assert sum(node.attr["comm_size"] for node in sent) == messages
    assert bool(messages) == (scenario == "grids")


def brought(op: Collective, schedule: Schedule) -> int:
    whole = message_bytes(op, schedule.tensors, schedule.mesh)
    return whole // schedule.mesh.size(op.axes) if op.kind == "all_gather" else whole


def test_attributes_have_the_types_that_feeders_read(made: Callable[[str, str], Made]) -> None:
    _, traces = made("grids", "1f1b")
    own = {"is_cpu_op": "bool_val", "alone_s": "double_val"}
    message = {"comm_size": "int64_val", "comm_src": "int32_val", "comm_dst": "int32_val", "comm_tag": "int32_val"}
    expected = {
        COMP: {**own, "num_ops": "int64_val", "tensor_size": "uint64_val"},
        COLL: {**own, "comm_type": "int64_val", "comm_size": "int64_val", "pg_name": "string_val"},
        SEND: {**own, **message},
        RECV: {**own, **message},
    }
    for nodes in traces.nodes.values():
        assert {node.type for node in nodes} == set(expected)
        assert all(node.types == expected[node.type] for node in nodes)
        assert not any(node.attr["is_cpu_op"] for node in nodes if node.type != COMP)


@pytest.mark.parametrize(
    ("plan", "size"),
    [
        # the embedding's 256 × 64 numbers of 2 bytes, an eighth on each rank: 32,768 / 8
        ("zero3", 4096),
        # an eighth of them in int8, 16,384 / 8 bytes, and a scale of 4 bytes for each 64: 2,048 + 32 × 4
        ("zeropp", 2176),
    ],
)
def test_the_hand_worked_piece_of_a_gather(made: Callable[[str, str], Made], plan: str, size: int) -> None:
    first = next(node for node in made("toy", plan)[1].nodes[0] if node.type == COLL)
    assert first.name == "all_gather weight_gather layer 0 micro 0"
    assert (first.attr["comm_type"], first.attr["comm_size"]) == (2, size)


def test_the_hand_worked_collectives_of_hsdp(made: Callable[[str, str], Made]) -> None:
    """8 ranks, 2 nodes of 4: weights are sharded over the 4 of a node, gradients summed over the pairs across nodes."""
    _, traces = made("toy", "hsdp")
    calls = Counter(
        (len(traces.groups[node.attr["pg_name"]]), node.attr["comm_type"])
        for node in traces.nodes[0]
        if node.type == COLL
    )
    kinds = {size: {kind for other, kind in calls if other == size} for size, _ in calls}
    assert kinds[4] >= {COMM_TYPES["all_gather"], COMM_TYPES["reduce_scatter"]}
    assert kinds[2] == {COMM_TYPES["all_reduce"]}


def test_equal_traces_are_one_file(tmp_path: Path) -> None:
    done = invoke("export", TOY, "--format", "chakra", "--plans", "zero3,hsdp", "--devices", "8", "--out", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert len({path.stat().st_ino for path in tmp_path.glob("chakra-zero3.*.et")}) == 1
    assert len({path.stat().st_ino for path in tmp_path.glob("chakra-hsdp.*.et")}) == 8
    size = sum(path.stat().st_size for path in tmp_path.glob("chakra-hsdp.*.et"))
    assert re.search(rf"^hsdp on 8: traces 8, nodes in each 149, groups 8, {size:,} bytes$", done.out, re.MULTILINE)


def test_folded_and_exact_traces_are_the_same(tmp_path: Path) -> None:
    command = ("export", TOY, "--format", "chakra", "--plans", "zero-topo", "--devices", "8", "--fidelity", "analytic")
    assert invoke(*command, "--out", tmp_path / "folded").code == 0
    assert invoke(*command, "--exact", "--out", tmp_path / "exact").code == 0
    for path in (tmp_path / "folded").iterdir():
        assert path.read_bytes() == (tmp_path / "exact" / path.name).read_bytes()


def test_a_step_that_differs_by_call_has_times_of_calls(tmp_path: Path, code: Any) -> None:
    scenario = tmp_path / "spread.toml"
    text = TOY.read_text(encoding="utf-8")
    spread = '\n[[perturbation.spread]]\nof = "kernels"\ndistribution = "normal"\nsd = 0.1\nseed = 3\n'
    scenario.write_text(text.replace("\n[plans.zero3]", f"{spread}\n[plans.zero3]"), encoding="utf-8")
    done = invoke("export", scenario, "--format", "chakra", "--plans", "ddp", "--devices", "4", "--out", tmp_path)
    assert (done.code, done.err) == (0, "")
    traces = read(tmp_path, "ddp", code)
    assert faults(traces) == []
    kernels = [[node.alone_s for node in nodes if node.type == COMP] for nodes in traces.nodes.values()]
    assert len({tuple(each) for each in kernels}) == 4


# ── many ranks ──


def test_64_ranks_of_the_20b_meet_and_take_as_long_as_the_step(tmp_path: Path, code: Any) -> None:
    loaded = load_scenario(TWENTY_B)
    step = simulated(loaded, ScheduleCache().get(loaded, "zero3", 64), "analytic", False)
    write_traces(loaded, "zero3", step, tmp_path)
    paths = list(tmp_path.glob("*.et"))
    assert len(paths) == 64 and len({path.stat().st_ino for path in paths}) == 1
    nodes = read_one(paths[0], code)[1]  # the trace of all of them
    traces = Traces({}, dict.fromkeys(range(64), nodes), {"1": list(range(64))})
    assert faults(traces) == []
    assert longest_path_s(traces) == pytest.approx(step.step_s, rel=1e-9)
