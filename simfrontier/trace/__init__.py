"""Traces: when every op ran, in one schema for simulation and reality, and their exporters."""

from simfrontier.trace.perfetto import perfetto_events, write_perfetto
from simfrontier.trace.table import Span, Trace

__all__ = ["Span", "Trace", "perfetto_events", "write_perfetto"]
