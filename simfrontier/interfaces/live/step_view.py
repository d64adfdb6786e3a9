"""The step of a plan as the live page draws it: spans by lane, memory, and the links of an average node, over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from simfrontier.answers.step import DRAWN_PARTS, link_use, node_links, traffic
from simfrontier.core.engine import MemoryTimeline, SimulatedStep, Walk, fullest, spans_of
from simfrontier.core.machine import Machine
from simfrontier.core.program import Peak
from simfrontier.core.trace import Span
from simfrontier.interfaces.report import (
    MEMORY_COLOURS,
    SPAN_COLOURS,
    WHOLE,
    drawn_memory,
    drawn_use,
    kind_of,
    lanes_of,
    node_drawing,
    op_name,
)


def step_view(machine: Machine, plan: str, step: SimulatedStep, peaks: Sequence[Peak]) -> dict[str, Any]:
    """The step on the rank that ends last, as JSON has it; times in microseconds, shares of links of `whole_link`."""
    spans, moved = spans_of(Walk(step=step, cls=step.critical)), traffic(step)
    use, loads = link_use(step, moved, "name", DRAWN_PARTS), node_links(step, moved)
    memory = fullest(step, peaks)
    kinds = [kind for kind in (*MEMORY_COLOURS, *sorted(set(memory.held) - set(MEMORY_COLOURS))) if kind in memory.held]
    return {
        "plan": plan,
        "step_us": 1e6 * step.step_s,
        **_spans(spans),
        "memory": _memory(memory, kinds),
        "kinds": [{"name": kind, "colour": MEMORY_COLOURS.get(kind, MEMORY_COLOURS["other"])} for kind in kinds],
        "capacity_bytes": step.pricing.machine.device.hbm_bytes,
        "links": drawn_use(use, machine, step.pricing.fabric.num_nodes),
        "num_parts": DRAWN_PARTS,
        "whole_link": WHOLE,
        "drawing": node_drawing(machine, loads, 1.0, f"Node of {machine.title}: utilisation of links"),
    }


def _spans(spans: Sequence[Span]) -> dict[str, Any]:
    """Spans as columns: microseconds, and numbers of lanes, names and kinds."""
    lanes, kinds = lanes_of(spans), list(SPAN_COLOURS)
    names = {name: number for number, name in enumerate(dict.fromkeys(map(_name, spans)))}
    return {
        "lanes": lanes,
        "colours": [{"name": name, "colour": SPAN_COLOURS[name]} for name in kinds],
        "names": list(names),
        "spans": {
            "start": [round(1e6 * span.start_s, 2) for span in spans],
            "end": [round(1e6 * span.end_s, 2) for span in spans],
            "lane": [lanes.index(span.lane) for span in spans],
            "name": [names[_name(span)] for span in spans],
            "kind": [kinds.index(kind_of(span)) for span in spans],
        },
    }


def _name(span: Span) -> str:
    return f"{op_name(span)}{f' over {span.axes}' if span.axes else ''}, {span.call}, layer {span.layer}"


def _memory(held: MemoryTimeline, kinds: Sequence[str]) -> dict[str, Any]:
    """Return what is held from each time (µs) to the next, by kind, as the memory of a step is drawn."""
    times, values = drawn_memory(held)
    return {
        "times": np.round(1e6 * times, 2).tolist(),
        "held": [np.rint(values[kind]).astype(np.int64).tolist() for kind in kinds],
        "peak_bytes": held.peak_bytes,
    }
