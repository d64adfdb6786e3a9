"""Traces: when every op ran, in one schema for simulation and reality; their file, and how two of them compare."""

from simfrontier.trace.perfetto import perfetto_events, write_perfetto
from simfrontier.trace.read import read_perfetto
from simfrontier.trace.table import Span, Trace

__all__ = ["Span", "Trace", "perfetto_events", "read_perfetto", "write_perfetto"]
