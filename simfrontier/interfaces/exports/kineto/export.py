"""Export of a simulated step as PyTorch profiler traces: a file per rank, and one file for Perfetto with all ranks, in
which arrows connect the ranks of a collective call."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from simfrontier.answers.step import arrows_of
from simfrontier.answers.study import ExportFormat
from simfrontier.base.wholefile import write_whole
from simfrontier.core.engine import SimulatedStep, walks_of
from simfrontier.core.program import CommunicatorGroups
from simfrontier.core.trace import ranges_text
from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.exports.kineto.rank_file import ClassTrace, Launched, events_of, groups_of, head_of, texts

MOST_EVENTS: Final = (
    2_000_000  # of all files together, some 300 bytes each; beyond, one rank stands for those of its class
)


def write_kineto(
    scenario: Scenario, plan: str, step: SimulatedStep, folder: Path, most_events: int = MOST_EVENTS
) -> str:
    """Write `PLAN-rank-N.json` for every rank (or, if there are too many events, for the lowest rank of each class of
    equal ranks), and `PLAN-ranks.perfetto` with the lowest ranks of all classes; return a description of the files."""
    classes = step.pricing.folding.rank_class
    traces = [ClassTrace(walk) for walk in walks_of(step)]
    num_events = sum(trace.walk.num_ops * len(trace.walk.members) for trace in traces) * 3
    lowest = [trace.walk.members[0] for trace in traces]
    chosen = list(range(len(classes))) if num_events <= most_events else lowest
    groups = groups_of(step.schedule)
    device = _device(step)
    for rank in chosen:
        trace = traces[int(classes[rank])]
        alike = trace.walk.members if chosen is lowest else [rank]
        head = head_of(rank, len(classes), groups, device, ranges_text(alike))
        local = rank % step.pricing.machine.devices_per_node
        _write(folder / f"{plan}-rank-{rank:05}.json", head, texts(events_of(trace, rank, groups, local)))
    _write(folder / f"{plan}-ranks.perfetto", '{"displayTimeUnit": "ms"', list(_together(traces, groups)))
    whom = "every rank" if chosen is not lowest else f"{len(chosen):,} of {len(classes):,} ranks, one for each class"
    return f"traces of {whom}, and the classes of ranks side by side in {plan}-ranks.perfetto"


def _write(path: Path, head: str, events: list[str] | Any) -> None:
    write_whole(path, f'{head}, "traceEvents": [\n' + ",\n".join(events) + "\n]}\n")


def _device(step: SimulatedStep) -> dict[str, Any]:
    machine = step.pricing.machine
    return {
        **{"id": 0, "name": f"{machine.title}: {machine.device_word}", "totalGlobalMem": int(machine.device.hbm_bytes)},
        "numSms": machine.device.num_compute_units,
    }


def _together(traces: Sequence[ClassTrace], groups: CommunicatorGroups) -> Iterator[str]:
    """Yield the events of the lowest rank of each class of equal ranks, and arrows from the last rank that was ready
    for a call to the other ranks."""
    for trace in traces:
        yield from texts(events_of(trace, trace.walk.members[0], groups, trace.walk.members[0]))
    placed = {
        (cls, call.index): (trace.walk.members[0], call.stream, trace.begin_end_us[0][call.index])
        for cls, trace in enumerate(traces)
        for call in trace.calls
        if isinstance(call, Launched)
    }
    for number, arrow in enumerate(arrows_of([trace.walk for trace in traces])):
        for phase, place in zip("sf", (arrow.source, arrow.target), strict=True):
            pid, tid, at_us = placed[place]
            event = {
                "ph": phase,
                "id": number,
                "cat": "collective",
                "name": "waits for",
                "pid": pid,
                "tid": tid,
                "ts": at_us,
            }
            yield json.dumps(event | ({"bp": "e"} if phase == "f" else {}), separators=(",", ":"))


KINETO: Final = ExportFormat(
    name="kineto",
    sentence="traces as PyTorch's profiler writes them, for HTA, TraceLens and Perfetto",
    write=write_kineto,
)
