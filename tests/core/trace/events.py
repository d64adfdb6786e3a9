"""A trace file as a viewer takes it: its events, and the spans that the ends of its arrows lie in."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from simfrontier.core.trace import Trace, TraceFile, perfetto_text
from simfrontier.core.trace.table import ranks_of_text

Event: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Joined:
    """An arrow from rank to rank (the lowest of those that a process stands for), and the spans that it joins."""

    source: int
    target: int
    left: Event
    reached: Event

    @property
    def name(self) -> str:
        return str(self.left["args"]["name"])


def events_of(file: Trace | TraceFile) -> list[Event]:
    """All events."""
    out: list[Event] = json.loads(perfetto_text(file))["traceEvents"]
    return out


def of_kind(events: Sequence[Event], kind: str) -> list[Event]:
    return [event for event in events if event["ph"] == kind]


def lowest_ranks(events: Sequence[Event]) -> dict[int, int]:
    """By process, those that have ranks."""
    named = [event for event in events if event["name"] == "process_name" and "members" in event["args"]]
    return {event["pid"]: ranks_of_text(event["args"]["members"])[0] for event in named}


def arrows(events: Sequence[Event]) -> list[Joined]:
    """All arrows. Raises AssertionError unless every `s` has one `f` of its id, which stands behind it in the file and
    not before it in time, and both lie in spans of that name on that lane of that process."""
    rank = lowest_ranks(events)
    order = {id(event): place for place, event in enumerate(events)}
    begins, ends = ({event["id"]: event for event in of_kind(events, kind)} for kind in ("s", "f"))
    assert len(begins) == len(of_kind(events, "s")) and len(ends) == len(of_kind(events, "f")), "an id twice"
    assert begins.keys() == ends.keys(), "an arrow without its other end"
    spans = {_place(event): event for event in of_kind(events, "X")}
    out = []
    for number, begin in begins.items():
        end = ends[number]
        assert begin["ts"] <= end["ts"] and order[id(begin)] < order[id(end)], "an arrow that leads back"
        assert end["bp"] == "e", "an arrow that viewers bind to the next span"
        left, reached = (spans.get(_place(each)) for each in (begin, end))
        assert left is not None and reached is not None, "an arrow outside of all spans of its name"
        out.append(Joined(rank[begin["pid"]], rank[end["pid"]], left, reached))
    return out


def _place(event: Event) -> tuple[int, int, str, float]:
    """Where a span begins; ends of arrows are there, too."""
    return event["pid"], event["tid"], event["name"], event["ts"]


def counted(events: Sequence[Event], name: str, process: int) -> list[tuple[float, dict[str, float]]]:
    """(microseconds, values) of a counter."""
    mine = (event for event in of_kind(events, "C") if event["name"] == name and event["pid"] == process)
    return [(event["ts"], event["args"]) for event in mine]


def held_at(counter: Sequence[tuple[float, dict[str, float]]], key: str, times: Sequence[float]) -> Iterator[float]:
    """The counter's value at each of these times, which ascend."""
    place = 0
    for time in times:
        while place + 1 < len(counter) and counter[place + 1][0] <= time:
            place += 1
        yield counter[place][1][key]
