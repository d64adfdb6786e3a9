"""Traces for tests: of simulated steps, and made by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from simfrontier.answers.study import ScheduleCache, simulated
from simfrontier.core.engine import Fidelity, SimulatedStep
from simfrontier.inputs.scenario import Scenario, load_scenario
from simfrontier.interfaces.exports.kineto.export import MOST_EVENTS, write_kineto
from tests.invoke import ROOT

Event = dict[str, Any]
PERIOD = 1000.0  # of the steps that `prefetching` makes, in microseconds
FEW_LAYERS: Mapping[str, Mapping[str, Any]] = {"frontier-10b": {"model.num_layers": 4}}


@cache
def step_of(scenario: str, plan: str, devices: int, fidelity: Fidelity = "flow") -> tuple[Scenario, SimulatedStep]:
    """The step of a plan of a shipped scenario."""
    loaded = load_scenario(ROOT / "scenarios" / f"{scenario}.toml", FEW_LAYERS.get(scenario, {}), (plan,), (devices,))
    return loaded, simulated(loaded, ScheduleCache().get(loaded, plan, devices), fidelity, False)


def exported(scenario: Scenario, step: SimulatedStep, folder: Path, all_ranks: bool = True) -> list[Path]:
    """The traces of its ranks, or of one rank of each class."""
    folder.mkdir(parents=True, exist_ok=True)
    write_kineto(scenario, "job", step, folder, MOST_EVENTS if all_ranks else 0)
    return sorted(folder.glob("*.json"))


def events_in(path: Path) -> list[Event]:
    """The events of a file, as any reader of JSON finds them."""
    events: list[Event] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def annotated(number: int, begin: float, end: float) -> Event:
    """A step as the host annotates it; times in microseconds."""
    event = {"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{number}", "pid": 9, "tid": 1, "args": {}}
    return event | {"ts": begin, "dur": end - begin}


def kernel(
    name: str,
    stream: int,
    begin: float,
    end: float,
    correlation: int,
    args: Mapping[str, Any] | None = None,
    launched: float = 0,
) -> list[Event]:
    """A kernel and its launch; times in microseconds."""
    own = {"stream": stream, "correlation": correlation, **(args or {})}
    return [
        {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 9, "tid": 1, "ts": launched, "dur": 1}
        | {"args": {"correlation": correlation}},
        {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": stream,
            "ts": begin,
            "dur": end - begin,
            "args": own,
        },
    ]


def prefetching(number: int, late: float = 0.0) -> list[Event]:
    """A step whose copy runs beside the product of the step before, which ends 550 after this step's launches begin;
    its own product runs from 600 to 1,550."""
    at = number * PERIOD
    return [
        annotated(number, at, at + 990),
        *kernel("Memcpy HtoD", 20, at + 100, at + 200, 10 * number + 1, launched=at + 50),
        *kernel("gemm", 7, at + 600, at + 1550 + late, 10 * number + 2, launched=at + 200),
    ]


def call(
    name: str, stream: int, begin: float, end: float, correlation: int, elements: int, ranks: Sequence[int], **more: Any
) -> list[Event]:
    """A collective of so many elements of two bytes."""
    args = {
        "Collective name": name,
        "dtype": "BFloat16",
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "Group size": len(ranks),
        "Process Group Name": "0",
        "Process Group Ranks": str(list(ranks)),
        **more,
    }
    return kernel(f"ncclDevKernel_{name}", stream, begin, end, correlation, args)


def record(correlation: int) -> Event:
    """The host records an event."""
    return {"ph": "X", "cat": "cuda_runtime", "name": "cudaEventRecord", "pid": 9, "tid": 1, "ts": 0, "dur": 1} | {
        "args": {"correlation": correlation}
    }


def wait(stream: int, on_stream: int, recorded: int, correlation: int) -> Event:
    """A stream waits for an event of another."""
    args = {
        "stream": stream,
        "correlation": correlation,
        "wait_on_stream": on_stream,
        "wait_on_cuda_event_record_corr_id": recorded,
    }
    return {"ph": "X", "cat": "cuda_sync", "name": "Stream Wait Event", "pid": 0, "tid": stream, "ts": 0, "dur": 0} | {
        "args": args
    }


def written(
    path: Path, events: Sequence[Event], rank: int = 0, ranks: int = 2, backend: str = "nccl", **head: Any
) -> Path:
    """A trace file of a rank."""
    info = {"backend": backend, "rank": rank, "world_size": ranks}
    document = {"schemaVersion": 1, "distributedInfo": info, **head, "traceEvents": list(events)}
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


# ── plain PyTorch over gloo ──

HOST, *GLOO = 1, 11, 12  # threads


def op(name: str, begin: float, end: float, thread: int = HOST, category: str = "cpu_op", **args: Any) -> Event:
    event = {"ph": "X", "cat": category, "name": name, "pid": 9, "tid": thread, "ts": begin, "dur": end - begin}
    return event | {"args": {key.replace("_", " "): value for key, value in args.items()}}


def carried(name: str, begin: float, end: float, elements: int, thread: int = GLOO[0], kind: str = "float") -> Event:
    """gloo's event, with one operand."""
    sizes = {"Input_Dims": [[elements]], "Input_type": [kind]}
    return op(f"gloo:{name}", begin, end, thread, "user_annotation", **sizes)


def issued(name: str, begin: float, *operands: Any) -> Event:
    """The op of the host, 5 long, whose operands have these shapes."""
    return op(f"c10d::{name}", begin, begin + 5, Input_Dims=[*operands, [], []])


def over_gloo(path: Path) -> Path:
    """A rank's trace of a gather, a scatter and a barrier between ops."""
    events = [
        *(annotated(0, 0, 100), op("aten::mm", 0, 10), op("aten::add", 21, 30)),
        *(issued("_allgather_base_", 10, [200], [100]), carried("all_gather", 12, 20, 100)),
        *(issued("_reduce_scatter_base_", 30, [100], [200]), carried("all_reduce", 32, 50, 200)),
        *(issued("barrier", 60, [1]), op("gloo:barrier", 62, 70, GLOO[0], "user_annotation")),
    ]
    groups = [{"pg_name": "0", "pg_size": 2, "ranks": [0, 1]}]
    return written(path, events, distributedInfo={"backend": "gloo", "rank": 0, "world_size": 2, "pg_config": groups})
