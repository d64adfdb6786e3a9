"""Trace files of simulated steps: who is shown, where arrows lead, and what counters count."""

from __future__ import annotations

import json
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from simfrontier.answers.step import link_use, step_trace, traffic
from simfrontier.answers.step.links_over_time import spread
from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.core.engine import Fidelity, SimulatedStep, Walk, memory_timeline, spans_of, trace_of
from simfrontier.core.machine import HEALTHY, Perturbation, SlowDevice
from simfrontier.core.program import digest
from simfrontier.core.trace import TraceFile, read_perfetto, write_perfetto
from simfrontier.core.trace.perfetto import MICROSECOND
from simfrontier.inputs.scenario import Scenario, scenario_of
from simfrontier.interfaces.report.timeline import bars
from tests.core.engine.steps import frontier_mesh, schedule, step
from tests.core.trace.events import Joined, arrows, counted, events_of, held_at, lowest_ranks, of_kind
from tests.invoke import TOY
from tests.perturbed import perturbed
from tests.some import some

# Two stages, two groups of data parallelism, tensor parallelism over two: rank = 4 stage + 2 package + tensor, and each
# rank is a class of its own. The same ranks do the same in every test below:
#   tensor groups 0 1 | 2 3 | 4 5 | 6 7, groups over data (the axis `package`) 0 2 | 1 3 | 4 6 | 5 7,
#   and stage 0 sends to stage 1 and receives from it in the pairs 0 4 | 1 5 | 2 6 | 3 7.
GROUPS = {
    "tensor": [{0, 1}, {2, 3}, {4, 5}, {6, 7}],
    "package": [{0, 2}, {1, 3}, {4, 6}, {5, 7}],
    "stage+package+tensor": [set(range(8))],
}


@cache
def piped(hbm_bytes: float = 16e9) -> Scenario:
    document: dict[str, Any] = tomllib.loads(TOY.read_text(encoding="utf-8"))
    document["plans"] = {"pipe": {"family": "megatron", "tensor": 2, "pipeline": 2, "data": "zero1"}}
    document["training"] = {"grad_accum": 2}
    return scenario_of(document, "toy.toml", {"machine.overrides.device.hbm_bytes": hbm_bytes}, ("pipe",), (8,))


@cache
def pipe_step(perturbation: Perturbation = HEALTHY, exact: bool = False, fidelity: Fidelity = "flow") -> SimulatedStep:
    scenario = piped()
    scenario = replace(scenario, file=scenario.file.model_copy(update={"perturbation": perturbation}))
    return simulated(scenario, ScheduleCache().get(scenario, "pipe", 8), fidelity, exact)


def file_of_step(made: SimulatedStep, **more: Any) -> TraceFile:
    return step_trace(made, digest(made.schedule), "t", traffic(made), **more)


@cache
def pipe_file() -> TraceFile:
    return file_of_step(pipe_step())


def exchanged(joined: list[Joined]) -> dict[str, set[tuple[int, int, int]]]:
    """Per exchange its arrows: micro-batch, sender, receiver."""
    out: dict[str, set[tuple[int, int, int]]] = {}
    for each in joined:
        if each.left["args"]["kind"] == "exchange":
            arrow = each.left["args"]["micro_batch"], each.source, each.target
            assert arrow not in out.setdefault(each.name, set())
            out[each.name].add(arrow)
    return out


# Two micro-batches, 1F1B. Stage 0 sends the activation of micro-batch 0 (`forward`). Then each of the two has something
# for the other: stage 0 the activation of micro-batch 1, stage 1 the gradient of micro-batch 0 (`both`, which counts as
# micro-batch 1). Last, stage 1 sends the gradient of micro-batch 1 (`backward`).
AHEAD = {(0, 4), (1, 5), (2, 6), (3, 7)}
BACK = {(4, 0), (5, 1), (6, 2), (7, 3)}
EXCHANGED = {
    "forward": {(0, *pair) for pair in AHEAD},
    "both": {(1, *pair) for pair in AHEAD | BACK},
    "backward": {(1, *pair) for pair in BACK},
}


# ── who is shown ──


def test_all_stages_and_rank_classes_are_processes_named_by_their_ranks() -> None:
    """Rank 4, the lowest of those that end last, comes first."""
    made = pipe_file()
    assert made.processes[0].members == (pipe_step().critical,) == (4,)
    assert [process.name for process in made.processes] == [
        "stage 1: rank 4 (1 of 8)",
        *(f"stage 0: rank {rank} (1 of 8)" for rank in range(4)),
        *(f"stage 1: rank {rank} (1 of 8)" for rank in (5, 6, 7)),
    ]
    assert "left_out" not in made.notes and "by_call" not in made.notes


def test_ranks_of_one_class_are_one_process() -> None:
    made = file_of_step(step(schedule("zero-topo", frontier_mesh(2))))
    assert sorted(rank for process in made.processes for rank in process.members) == list(range(16))
    assert 1 < len(made.processes) < 16
    assert made.processes[0].name.startswith("ranks ") and made.processes[0].name.endswith(" of 16)")


def test_a_process_has_the_spans_of_its_class() -> None:
    """The same as the trace of the class alone, times included."""
    made, one = pipe_file(), pipe_step()
    for process in some(made.processes):
        (cls,) = process.members
        own = trace_of(one, "d", "t", (cls,)).spans[0]
        each = zip(
            process.spans, process.ready_s.tolist(), process.start_s.tolist(), process.end_s.tolist(), strict=True
        )
        assert tuple(replace(s, ready_s=ready, start_s=start, end_s=end) for s, ready, start, end in each) == own
    assert made.first.spans[0] == trace_of(one, "d", "t", (one.critical,)).spans[0]


def test_what_is_left_out_is_said() -> None:
    one = pipe_step()
    made = file_of_step(one, most_spans=1)
    assert [process.members for process in made.processes] == [(4,)]
    assert (
        made.notes["left_out"] == "7 of 8 rank classes (7 of 8 ranks): with them, op by op, these are more than 1 spans"
    )
    assert not made.arrows
    two = file_of_step(one, most_spans=115 + 135)
    assert [process.members for process in two.processes] == [(4,), (0,)]
    assert two.notes["left_out"].startswith("6 of 8") and "by_call" not in two.notes
    assert exchanged(arrows(events_of(two)))["both"] == {(1, 0, 4), (1, 4, 0)}


# ── arrows ──


def test_arrows_of_exchanges_lead_from_the_sender_to_the_receiver() -> None:
    assert exchanged(arrows(events_of(pipe_file()))) == EXCHANGED


def test_arrows_of_collectives_join_the_ranks_of_a_group() -> None:
    """A group of k has k - 1 arrows a call, all from one rank. A rank of stage 0 has 10 all-reduces over `tensor`, one
    of stage 1 has 14, all have 6 calls over data and 2 over all 8: 10 × 2 + 14 × 2 groups + 6 × 4 + 2 × 7 arrows."""
    joined = [each for each in arrows(events_of(pipe_file())) if each.left["args"]["kind"] != "exchange"]
    by_axes = Counter(each.left["args"]["axes"] for each in joined)
    assert by_axes == {"tensor": 10 * 2 + 14 * 2, "package": 6 * 4, "stage+package+tensor": 2 * 7}
    sources: dict[tuple[Any, ...], set[int]] = {}
    for each in joined:
        (group,) = [group for group in GROUPS[each.left["args"]["axes"]] if each.source in group]
        assert each.target in group and each.target != each.source
        same = ("kind", "name", "axes", "level", "micro_batch", "bytes")
        assert all(each.left["args"][key] == each.reached["args"][key] for key in same)
        assert each.left["ts"] == each.reached["ts"] and each.left["dur"] == each.reached["dur"]
        assert each.left["args"]["ready_us"] >= each.reached["args"]["ready_us"]
        sources.setdefault((min(group), each.left["args"]["axes"], each.left["ts"]), set()).add(each.source)
    assert all(len(one) == 1 for one in sources.values())


def test_arrows_lead_from_the_rank_that_came_last() -> None:
    """Device 1 computes at half the speed: rank 0 waits for rank 1 in all that follows a product, and so do all others
    at the first all-reduce over everything."""
    joined = arrows(events_of(file_of_step(pipe_step(perturbed(slow={1: 0.5})))))
    pairs = Counter((each.source, each.target) for each in joined if each.left["args"].get("axes") == "tensor")
    assert pairs[1, 0] > pairs[0, 1]
    late = [each for each in joined if each.left["args"]["ready_us"] > each.reached["args"]["ready_us"]]
    assert {(1, 0)} <= {(each.source, each.target) for each in some(late)}
    forwards = [e for e in joined if e.name == "activation" and e.left["args"]["call"] == "forward" and e.source < 2]
    assert [(each.source, each.target) for each in some(forwards)] == [(1, 0)] * 2  # of two micro-batches


def test_arrows_of_a_step_of_one_role_join_classes_of_one_group() -> None:
    """Folded: two nodes of Frontier, where GCDs that reach a NIC alike are a class. Every group that an arrow is in
    has a rank of both of its ends, whatever the axes."""
    built = schedule("zero-topo", frontier_mesh(2))
    made = file_of_step(step(built))
    where = lowest_ranks(events_of(made))
    assert len(where) > 1
    members = {process.members[0]: set(process.members) for process in made.processes}
    for each in some(arrows(events_of(made))):
        axes = tuple(each.left["args"]["axes"].split("+"))
        groups = [set(group) for group in built.mesh.groups(axes).tolist() if each.source in group]
        assert any(group & members[each.target] for group in groups), each


# ── counters ──


@pytest.mark.parametrize("rank", [0, 4])
def test_memory_is_the_timelines_at_every_change(rank: int) -> None:
    one, made = pipe_step(), pipe_file()
    timeline, events = memory_timeline(one, rank), events_of(made)
    (process,) = [process for process, lowest in lowest_ranks(events).items() if lowest == rank]
    counter = counted(events, "memory", process)
    total = np.sum(list(timeline.held.values()), axis=0).tolist()
    # times that are one to the nanosecond stand in their order, of which the last counts
    times = [round(time / MICROSECOND, 3) for time in timeline.times.tolist()]
    last = dict(zip(times, total, strict=True))
    assert list(held_at(counter, "bytes", list(last))) == list(last.values())
    assert {value["bytes"] for _, value in counter} == set(map(round, total))
    assert all(a[1] != b[1] for a, b in pairwise(counter))  # at changes only
    assert max(value["bytes"] for _, value in counter) == timeline.peak_bytes


def steps_with_links() -> Iterator[SimulatedStep]:
    yield pipe_step()
    yield pipe_step(perturbed(slow={1: 0.5}))
    for family in ("zero3", "zero-topo", "zeropp", "hsdp"):
        yield step(schedule(family, frontier_mesh(2)))
    yield step(schedule("zero-topo", frontier_mesh(2)), exact=True)


def test_the_links_integral_is_the_bytes_that_they_carry() -> None:
    """Of every class of links, and of the NICs each way: shares times capacity, over all of the step, as the file has
    them."""
    for one in steps_with_links():
        moved, fabric = traffic(one), one.pricing.fabric
        use, events = link_use(one, moved), events_of(file_of_step(one))
        (process,) = [event["pid"] for event in of_kind(events, "M") if event["args"].get("holds") == "counters"]
        counter = counted(events, "share of the links' capacity", process)
        assert len(counter) > 2 and counter[-1][0] == pytest.approx(one.step_s / MICROSECOND, abs=1e-3)
        known = dict.fromkeys(use.num_bytes, 0.0)
        for number, wire in enumerate([*fabric.machine.node.links] * fabric.num_nodes):
            way = " out" if wire.dst == "net" else " in" if wire.src == "net" else ""
            if moved.on_link[number]:
                known[wire.link_class + way] += float(moved.on_link[number])
        assert sum(known.values()) == pytest.approx(float(moved.on_link[: fabric.hbm_base].sum()), rel=1e-12)
        for name, carried in known.items():
            assert use.num_bytes[name].sum() == pytest.approx(carried, rel=1e-12)
            times = [time * MICROSECOND for time, _ in counter]
            shares = [values[name] for _, values in counter]
            area = sum(share * (b - a) for share, (a, b) in zip(shares[:-1], pairwise(times), strict=True))
            # a time in the file is up to half a nanosecond off, by which the area is off times the change there
            most = 0.5e-9 * sum(abs(b - a) for a, b in pairwise(shares))
            assert area * use.capacity[name] == pytest.approx(carried, rel=1e-9, abs=most * use.capacity[name])
            assert shares[-1] == 0.0 and max(shares) > 0.0


def test_the_first_exchange_of_a_pipeline_by_hand() -> None:
    """Nothing else leaves a node before it: four ranks of stage 0 send 4,096 bytes to the other node, at an even rate
    over the time of the call, and receive nothing."""
    one = pipe_step()
    use = link_use(one, traffic(one))
    first, second, *_ = (span for span in spans_of(Walk(step=one, cls=0)) if span.kind == "exchange")
    assert (first.name, second.name) == ("forward", "both")
    sent, received = use.num_bytes["nic out"], use.num_bytes["nic in"]
    before = use.times_s + use.part_s < second.start_s
    assert sent[before].sum() == pytest.approx(4 * 4096, rel=1e-9)
    assert received[before].sum() == pytest.approx(4 * 4096, rel=1e-9)  # those of stage 1's node
    at = (use.times_s > first.start_s) & (use.times_s + use.part_s < first.end_s)
    assert sent[at] == pytest.approx(4 * 4096 * use.part_s / (first.end_s - first.start_s), rel=1e-9)


AMOUNTS = st.lists(
    st.tuples(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1e9)).map(lambda t: (min(t[:2]), max(t[:2]), t[2])),
    max_size=8,
)


@given(AMOUNTS, st.integers(1, 7))
def test_spread_amounts_stay_whole_and_lie_in_their_time(amounts: list[tuple[float, float, float]], num: int) -> None:
    start, end, amount = np.array(amounts, float).reshape(-1, 3).T
    edges = np.linspace(0.0, 1.0, num + 1)
    out = spread(start, end, amount, edges)
    assert out.sum() == pytest.approx(amount.sum(), rel=1e-9, abs=1e-9)
    assert (out >= -1e-6).all()
    for part in range(num):
        whole = sum(
            a * (max(0.0, min(e, edges[part + 1]) - max(s, edges[part])) / (e - s))
            for s, e, a in amounts
            if e - s > 1e-9
        )
        at_once = sum(a for s, e, a in amounts if e - s <= 1e-9 and edges[part] - 1e-9 <= s <= edges[part + 1] + 1e-9)
        assert whole - 1e-3 <= out[part] <= whole + at_once + 1e-3


# ── files ──


def test_a_file_reads_back_as_its_spans(tmp_path: Path) -> None:
    """Arrows and counters are passed over; spans, ranks and notes are those of the step's plain trace."""
    made, one = pipe_file(), pipe_step()
    write_perfetto(made, tmp_path / "trace.json")
    write_perfetto(
        trace_of(one, made.digest, "t", tuple(process.members[0] for process in made.processes)),
        tmp_path / "plain.json",
    )
    read, plain = read_perfetto(tmp_path / "trace.json"), read_perfetto(tmp_path / "plain.json")
    assert read == replace(plain, ranks=tuple(process.name for process in made.processes))
    kinds = Counter(event["ph"] for event in events_of(made))
    assert kinds["s"] == kinds["f"] > 100 and kinds["C"] > 100
    by_call = file_of_step(one, most_spans=200)
    write_perfetto(by_call, tmp_path / "by-call.json")
    assert read_perfetto(tmp_path / "by-call.json").notes == by_call.notes


def test_marks_say_when_the_machine_changed(tmp_path: Path) -> None:
    t = pipe_step().step_s
    ill = Perturbation(slow=(SlowDevice(device=1, factor=0.5, from_s=t / 4, until_s=t / 2),))
    made = step_trace(done := pipe_step(ill), "0" * 64, "changes", traffic(done))
    assert [(mark.time_s, mark.text) for mark in made.marks] == [
        (t / 4, "device 1 at 50 %"),
        (t / 2, "device 1 well again"),
    ]
    write_perfetto(made, path := tmp_path / "trace.json")
    instants = [event for event in json.loads(path.read_text())["traceEvents"] if event["ph"] == "i"]
    assert [(event["name"], event["ts"]) for event in instants] == [
        (mark.text, pytest.approx(mark.time_s * 1e6, abs=1e-3)) for mark in made.marks
    ]
    assert read_perfetto(path).ranks == tuple(process.name for process in made.processes)
    drawn = bars(made)["layout"]
    assert [shape["x0"] for shape in drawn["shapes"]] == pytest.approx([t / 4, t / 2], rel=1e-6)
    assert [note["text"] for note in drawn["annotations"]] == [mark.text for mark in made.marks]
    assert not step_trace(pipe_step(), "0" * 64, "none", traffic(pipe_step())).marks
