"""`simfrontier export --format chakra`: traces that generated code reads, whose calls meet, and that last as long."""

from __future__ import annotations

import builtins
import copy
import os
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from simfrontier.collectives import exchanged_bytes, message_bytes
from simfrontier.scenario import load_scenario
from simfrontier.schedule import Collective, Compute, Exchange, Schedule
from simfrontier.simulation import SimulatedStep, trace_notes
from simfrontier.study import ScheduleCache, simulated
from simfrontier_extras.chakra.nodes import COMM_TYPES
from simfrontier_extras.chakra.tests.replays import OneAtATime, longest_path_s
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
from simfrontier_extras.chakra.write import write_traces
from tests.invoke import ROOT, TOY, invoke, refusal

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
TOY_PLANS = ("zero3", "ddp", "zero1", "zero2", "hsdp", "zeropp", "zero-topo", "my-own")
GRID_PLANS = ("1f1b", "gpipe", "interleaved", "axonn")


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
def test_one_call_at_a_time_ends(made: Callable[[str, str], Made], scenario: str, plan: str) -> None:
    """ASTRA-sim runs one collective or send of a rank at a time: no two ranks may wait for each other's next call."""
    _, traces = made(scenario, plan)
    assert OneAtATime(traces).step_s() >= max(
        sum(node.alone_s for node in nodes if node.type == COMP and not node.attr["is_cpu_op"])
        for nodes in traces.nodes.values()
    )


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


@plans
def test_kernels_are_those_of_the_schedule(made: Callable[[str, str], Made], scenario: str, plan: str) -> None:
    step, traces = made(scenario, plan)
    for rank, nodes in traces.nodes.items():
        role = step.schedule.roles[int(step.pricing.role_of[step.pricing.folding.rank_class[rank]])]
        ops = [op for _, op in role.instances() if isinstance(op, Compute)]
        mine = [node for node in nodes if node.type == COMP]
        assert [node.name.split(" layer ")[0] for node in mine] == [f"{op.kind} {op.name}" for op in ops]
        assert [node.attr["num_ops"] for node in mine] == [
            max(1, round(op.local_flops(step.schedule.mesh))) for op in ops
        ]
        assert [node.attr["is_cpu_op"] for node in mine] == [op.lane == "host" for op in ops]


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


def test_a_coded_reduction_is_an_all_to_all(made: Callable[[str, str], Made]) -> None:
    """Contributions in int4 are added where they arrive: nothing is reduced on the way."""
    calls = [node for node in made("toy", "zeropp")[1].nodes[0] if node.name.startswith("reduce_scatter gradient")]
    assert {node.attr["comm_type"] for node in calls} == {6, 7}


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


def test_micros_of_a_lane_add_up_to_its_time(made: Callable[[str, str], Made]) -> None:
    """Each is rounded so that the sum is; a toy kernel takes a few microseconds, where rounding alone would be seen."""
    step, traces = made("toy", "zero3")
    program = step.program
    for lane in range(len(program.lanes)):
        exact = micros = 0.0
        for node, mine in zip(traces.nodes[step.critical], program.lane, strict=True):
            if mine == lane:
                exact, micros = exact + node.alone_s * 1e6, micros + node.duration_micros
                assert micros == pytest.approx(exact, abs=0.5 + 1e-9)


def test_equal_traces_are_one_file(tmp_path: Path) -> None:
    done = invoke("export", TOY, "--format", "chakra", "--plans", "zero3,hsdp", "--devices", "8", "--out", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert len({path.stat().st_ino for path in tmp_path.glob("chakra-zero3.*.et")}) == 1
    assert len({path.stat().st_ino for path in tmp_path.glob("chakra-hsdp.*.et")}) == 8
    size = sum(path.stat().st_size for path in tmp_path.glob("chakra-hsdp.*.et"))
    assert re.search(rf"^hsdp on 8: traces 8, nodes in each 149, groups 8, {size:,} bytes$", done.out, re.MULTILINE)


def test_a_file_system_without_links_has_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    command = ("export", TOY, "--format", "chakra", "--plans", "zero3", "--devices", "4", "--out")
    assert invoke(*command, tmp_path / "a").code == 0
    monkeypatch.setattr(os, "link", refused)
    done = invoke(*command, tmp_path / "b")
    assert done.code == 0 and "on disk" not in done.out
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()
    assert len({path.stat().st_ino for path in (tmp_path / "b").glob("*.et")}) == 4


@pytest.mark.parametrize("plan", ["zero-topo", "my-own"])
def test_folded_and_exact_traces_are_the_same(tmp_path: Path, plan: str) -> None:
    command = ("export", TOY, "--format", "chakra", "--plans", plan, "--devices", "8", "--fidelity", "analytic")
    assert invoke(*command, "--out", tmp_path / "folded").code == 0
    assert invoke(*command, "--exact", "--out", tmp_path / "exact").code == 0
    for path in (tmp_path / "folded").iterdir():
        assert path.read_bytes() == (tmp_path / "exact" / path.name).read_bytes()


def test_without_protobuf_it_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    importing = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name.startswith("google"):
            raise ModuleNotFoundError(name)
        return importing(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    assert refusal("export", TOY, "--format", "chakra", "--out", tmp_path / "out") == (
        "--format chakra needs the library protobuf, which is not installed; allowed: pip install 'simfrontier[chakra]'"
    )
    assert not (tmp_path / "out").exists()


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


def test_what_is_dead_for_most_of_the_step_is_one_line(tmp_path: Path) -> None:
    """Device 0 for half a second of a step that takes milliseconds without it; a link, which has a way around it, in
    every state, so that none is whole."""
    scenario = tmp_path / "dead.toml"
    dead = (
        '[perturbation]\nlinks = [{ node = 0, link = "nic0>net", factor = 0 }]\n'
        "slow = [{ device = 0, factor = 0, until_s = 0.5 }]\n"
    )
    scenario.write_text(TOY.read_text(encoding="utf-8").replace("[plans.zero3]", f"{dead}[plans.zero3]"), "utf-8")
    command = ("export", scenario, "--format", "chakra", "--plans", "zero3", "--devices", "8")
    assert refusal(*command, "--out", tmp_path / "out") == (
        "perturbation: hook embedding has no time: what it needs is dead in the state that lasts longest in the step; "
        "allowed: one in which every op ends"
    )
    assert not (tmp_path / "out").exists()


# ── mutants: what the checks above see ──


def changed(traces: Traces, change: Callable[[Traces], None]) -> Traces:
    out = copy.deepcopy(traces)
    change(out)
    return out


def drop_order_of_a_group(traces: Traces) -> None:
    """The second call of rank 0's first group waits for nothing."""
    nodes = [node for node in traces.nodes[0] if node.type == COLL]
    second = next(node for node in nodes[1:] if node.attr["pg_name"] == nodes[0].attr["pg_name"])
    second.data_deps = []


def swap_two_calls(traces: Traces) -> None:
    nodes = [node for node in traces.nodes[0] if node.type == COLL]
    first, second = next(
        (a, b)
        for a, b in pairwise(nodes)
        if a.attr["pg_name"] == b.attr["pg_name"] and a.attr["comm_size"] != b.attr["comm_size"]
    )
    first.attr, second.attr = second.attr, first.attr


def cycle(traces: Traces) -> None:
    traces.nodes[0][3].data_deps.append(5)


def leave_out_a_call(traces: Traces) -> None:
    node = next(node for node in traces.nodes[1] if node.type == COLL)
    node.type = COMP


def another_group(traces: Traces) -> None:
    node = next(node for node in traces.nodes[0] if node.type == COLL)
    mine = set(traces.groups[node.attr["pg_name"]])
    node.attr["pg_name"] = next(name for name, ranks in traces.groups.items() if 0 not in ranks and mine != set(ranks))


@pytest.mark.parametrize(
    ("plan", "change", "said"),
    [
        ("hsdp", drop_order_of_a_group, "may overtake each other"),
        ("zero3", swap_two_calls, "its ranks make other calls, or in another order"),
        ("zero3", cycle, "node 3 waits for a node that is not before it"),
        ("zero3", leave_out_a_call, "its ranks make other calls, or in another order"),
        ("hsdp", another_group, "which it is not in"),
    ],
)
def test_a_mutant_is_seen(
    made: Callable[[str, str], Made], plan: str, change: Callable[[Traces], None], said: str
) -> None:
    found = faults(changed(made("toy", plan)[1], change))
    assert any(said in text for text in found), found


def another_tag(traces: Traces) -> None:
    next(node for node in traces.nodes[0] if node.type == SEND).attr["comm_tag"] += 7


def another_size(traces: Traces) -> None:
    next(node for node in traces.nodes[7] if node.type == RECV).attr["comm_size"] += 1


@pytest.mark.parametrize("change", [another_tag, another_size])
def test_a_message_that_is_not_received_is_seen(
    made: Callable[[str, str], Made], change: Callable[[Traces], None]
) -> None:
    found = faults(changed(made("grids", "1f1b")[1], change))
    assert len(found) == 2 and all(text.startswith("message ") for text in found), found


def test_a_dependency_that_is_dropped_shortens_the_replay(made: Callable[[str, str], Made]) -> None:
    """The optimizer of all ranks waits for no gradient."""
    step, traces = made("toy", "ddp")

    def drop(mutant: Traces) -> None:
        for nodes in mutant.nodes.values():
            last = max(nodes, key=lambda node: node.id)
            last.data_deps = []
            for node in nodes:
                if node.name.startswith("adam"):
                    node.data_deps = []

    assert longest_path_s(changed(traces, drop)) < step.step_s * (1 - 1e-6)


def test_ranks_that_wait_for_each_other_do_not_end(made: Callable[[str, str], Made]) -> None:
    """A replay that is played one call at a time sees a wait that crosses: rank 0 calls its second group first."""
    _, traces = made("toy", "hsdp")

    def cross(mutant: Traces) -> None:
        nodes = [node for node in mutant.nodes[0] if node.type == COLL]
        by_group = {node.attr["pg_name"]: node for node in reversed(nodes)}
        first, second = sorted(by_group.values(), key=lambda node: node.id)[:2]
        first.data_deps.append(second.id)

    with pytest.raises(AssertionError, match="never"):
        longest_path_s(changed(traces, cross))
    with pytest.raises(AssertionError, match="never"):
        OneAtATime(changed(traces, cross)).step_s()


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


def test_384_ranks_are_written_in_a_gibibyte(tmp_path: Path) -> None:
    """In a process that may have no more: 384 traces of 4,978 nodes, of which no two are equal."""
    command = ("export", TWENTY_B, "--format", "chakra", "--plans", "zero-topo", "--devices", "384")
    done = invoke(*command, "--out", tmp_path)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("zero-topo on 384: traces 384, nodes in each 4,978, groups 401, ")
    assert len({path.stat().st_ino for path in tmp_path.glob("*.et")}) == 384
