"""Simulated steps as traces of PyTorch's profiler: what trace tools find in them."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from simfrontier.answers.step import exposure
from tests.inputs.profiler.traces import Event, events_in, exported, step_of

CASES = [("toy", "zero-topo", 8), ("compressed-3d", "plain", 8)]

PLAIN = [("toy", "zero3", 8), ("frontier-10b", "zeropp", 8)]


def exposed_us(events: list[Event]) -> float:
    """What Holistic Trace Analysis calls non-compute time: a kernel runs whose name begins with nccl, and no other
    (hta/analyzers/breakdown_analysis.py, get_temporal_breakdown)."""
    kernels = [event for event in events if event.get("cat") == "kernel"]
    times = np.unique([edge for event in kernels for edge in (event["ts"], event["ts"] + event["dur"])])
    covered = {True: np.zeros(len(times)), False: np.zeros(len(times))}
    for event in kernels:
        first, last = np.searchsorted(times, [event["ts"], event["ts"] + event["dur"]])
        covered[event["name"].startswith("nccl")][first:last] += 1
    lengths = np.diff(times, append=times[-1])
    return float(lengths[(covered[True] > 0) & (covered[False] == 0)].sum())


@pytest.mark.parametrize(("scenario", "plan", "devices"), PLAIN)
def test_what_no_kernel_hides_of_calls_is_our_exposed_communication(
    tmp_path: Path, scenario: str, plan: str, devices: int
) -> None:
    loaded, step = step_of(scenario, plan, devices)
    files = exported(loaded, step, tmp_path)
    rank = int(np.flatnonzero(step.pricing.folding.rank_class == step.critical)[0])
    spent = exposure(step)
    ours_s = spent.inter_node + spent.intra_node + spent.package
    assert exposed_us(events_in(files[rank])) * 1e-6 == pytest.approx(ours_s, rel=1e-6)


@pytest.mark.parametrize(("scenario", "plan", "devices"), CASES)
def test_the_ranks_of_a_group_make_the_same_calls_in_the_same_order(
    tmp_path: Path, scenario: str, plan: str, devices: int
) -> None:
    loaded, step = step_of(scenario, plan, devices)
    calls: dict[tuple[str, str], dict[int, list[tuple[object, ...]]]] = defaultdict(dict)
    for rank, path in enumerate(exported(loaded, step, tmp_path)):
        for event in events_in(path):
            args = event.get("args", {})
            if "Collective name" in args and args["Collective name"] not in ("send", "recv"):
                key = args["Process Group Name"], args["Process Group Ranks"]
                assert rank in json.loads(args["Process Group Ranks"])
                facts = (args["Seq"], args["Collective name"], args["dtype"], args["In msg nelems"])
                calls[key].setdefault(rank, []).append(facts)
    assert calls
    for (_, ranks), by_rank in calls.items():
        assert sorted(by_rank) == sorted(json.loads(ranks))
        assert len({tuple(each) for each in by_rank.values()}) == 1
        sequence = [facts[0] for facts in next(iter(by_rank.values()))]
        assert sequence == list(range(1, len(sequence) + 1))


def test_every_kernel_is_launched_once_before_it_starts_and_streams_are_fifos(tmp_path: Path) -> None:
    loaded, step = step_of("toy", "zero-topo", 8)
    for path in exported(loaded, step, tmp_path):
        events = events_in(path)
        launched = {
            event["args"]["correlation"]: event["ts"] for event in events if event["name"] == "cudaLaunchKernel"
        }
        ended: dict[int, float] = {}
        kernels = [event for event in events if event.get("cat") == "kernel"]
        assert sorted(launched) == sorted(event["args"]["correlation"] for event in kernels)
        for event in sorted(kernels, key=lambda each: each["args"]["correlation"]):
            assert launched[event["args"]["correlation"]] <= event["ts"]
            assert event["ts"] >= ended.get(event["tid"], 0.0) * (1 - 1e-12)
            ended[event["tid"]] = event["ts"] + event["dur"]
        host = [event["ts"] for event in events if event.get("cat") == "cuda_runtime"]
        assert host == sorted(host)


def test_an_arrow_joins_the_ranks_of_one_call(tmp_path: Path) -> None:
    loaded, step = step_of("compressed-3d", "plain", 8)
    exported(loaded, step, tmp_path)
    events = events_in(tmp_path / "job-ranks.perfetto")
    at = {(e["pid"], e["tid"], e["ts"]): e["args"] for e in events if "Collective name" in e.get("args", {})}
    flows = [event for event in events if event["ph"] in "sf"]
    assert flows
    for source, target in zip(flows[::2], flows[1::2], strict=True):
        first, second = (at[end["pid"], end["tid"], end["ts"]] for end in (source, target))
        assert source["pid"] != target["pid"]
        if first["Collective name"] not in ("send", "recv"):
            assert (first["Process Group Ranks"], first["Seq"]) == (second["Process Group Ranks"], second["Seq"])
