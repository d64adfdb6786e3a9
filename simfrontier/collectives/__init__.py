"""Collectives: what they move, and what a library would do to move it."""

from simfrontier.collectives.algorithms import Algorithm, algorithm, algorithms
from simfrontier.collectives.calibration import (
    Calibration,
    CallTable,
    MeasuredPoint,
    load_calibration,
    write_calibration,
)
from simfrontier.collectives.library import Library, Residual
from simfrontier.collectives.load import libraries, load_library
from simfrontier.collectives.overlay import machine_numbers
from simfrontier.collectives.ring_law import GroupShape, HopTimes, LowLatency, Pipeline
from simfrontier.collectives.step_law import StepLaw
from simfrontier.collectives.volume import (
    Message,
    call_of,
    exchanged_bytes,
    messages_of,
    sent_share,
    whole_side,
    wire_of,
)

__all__ = [
    "Algorithm",
    "Calibration",
    "CallTable",
    "GroupShape",
    "HopTimes",
    "Library",
    "LowLatency",
    "MeasuredPoint",
    "Message",
    "Pipeline",
    "Residual",
    "StepLaw",
    "algorithm",
    "algorithms",
    "call_of",
    "exchanged_bytes",
    "libraries",
    "load_calibration",
    "load_library",
    "machine_numbers",
    "messages_of",
    "sent_share",
    "whole_side",
    "wire_of",
    "write_calibration",
]
