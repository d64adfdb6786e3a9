"""Simulation of one training step: ops priced on a machine, run in a SimPy event loop over rank classes (equivalent
ranks folded into one)."""

from simfrontier.core.engine.call_factors import lasting as lasting
from simfrontier.core.engine.joint import Neighbour as Neighbour
from simfrontier.core.engine.memory import (
    KINDS as KINDS,
    MemoryTimeline as MemoryTimeline,
    fullest as fullest,
    memory_timeline as memory_timeline,
)
from simfrontier.core.engine.resample import (
    DurationFactors as DurationFactors,
    resampled_s as resampled_s,
    resampled_waits as resampled_waits,
)
from simfrontier.core.engine.spans import spans_of as spans_of, trace_notes as trace_notes, trace_of as trace_of
from simfrontier.core.engine.step import (
    LEVELS as LEVELS,
    Fidelity as Fidelity,
    Level as Level,
    SimulatedStep as SimulatedStep,
    refuse_unknown as refuse_unknown,
    simulate as simulate,
    simulate_step as simulate_step,
)
from simfrontier.core.engine.step_path import passed as passed
from simfrontier.core.engine.stops import JobStopsError as JobStopsError
from simfrontier.core.engine.timeline import RoleTimeline as RoleTimeline, Timeline as Timeline
from simfrontier.core.engine.transfers import lowered_schedule as lowered_schedule, recipes_of as recipes_of
from simfrontier.core.engine.varied import (
    REPLAY_LARGEST_ERROR as REPLAY_LARGEST_ERROR,
    REPLAY_MEAN_ERROR as REPLAY_MEAN_ERROR,
    speed_error as speed_error,
    step_note as step_note,
    varied_step_s as varied_step_s,
)
from simfrontier.core.engine.walk import CallKey as CallKey, Walk as Walk, meetings as meetings, walks_of as walks_of
