"""Traces of one rank that gathers, one message after the other."""

from __future__ import annotations

from simfrontier.core.trace import Span, Trace
from tests.core.trace.fakes import span, trace

MESH = {"mesh": "node 2, package 3, gcd 4"}


def one_rank(*durations_s: float, bytes_of: float = 2e6, kind: str = "all_gather") -> Trace:
    """Gathers of so many seconds, each of so many bytes."""
    spans: list[Span] = []
    now = 0.0
    for op, duration in enumerate(durations_s):
        spans.append(span(op, now, now + duration, axes="node+gcd", kind=kind, message_bytes=bytes_of))
        now += duration
    return trace(tuple(spans), notes=MESH)
