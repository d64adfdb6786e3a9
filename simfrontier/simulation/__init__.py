"""Simulation: ops priced on a machine, and SimPy's clock over folded ranks."""

from simfrontier.simulation.call_factors import lasting as lasting
from simfrontier.simulation.longest_path import passed as passed
from simfrontier.simulation.lowering import lowered_schedule as lowered_schedule, recipes_of as recipes_of
from simfrontier.simulation.many_speeds import speed_error as speed_error
from simfrontier.simulation.memory import (
    KINDS as KINDS,
    MemoryTimeline as MemoryTimeline,
    fullest as fullest,
    memory_timeline as memory_timeline,
)
from simfrontier.simulation.neighbour import Neighbour as Neighbour
from simfrontier.simulation.notes import step_note as step_note
from simfrontier.simulation.resample import DurationFactors as DurationFactors, resampled as resampled, resampled_s as resampled_s
from simfrontier.simulation.spans import spans_of as spans_of, trace_notes as trace_notes, trace_of as trace_of
from simfrontier.simulation.step import (
    LEVELS as LEVELS,
    Fidelity as Fidelity,
    Level as Level,
    SimulatedStep as SimulatedStep,
    refuse_unknown as refuse_unknown,
    simulate_step as simulate_step,
)
from simfrontier.simulation.stopped import JobStopsError as JobStopsError
from simfrontier.simulation.timeline import RoleTimeline as RoleTimeline, Timeline as Timeline
from simfrontier.simulation.variations import (
    REPLAY_LARGEST_ERROR as REPLAY_LARGEST_ERROR,
    REPLAY_MEAN_ERROR as REPLAY_MEAN_ERROR,
    varied_step_s as varied_step_s,
)
from simfrontier.simulation.walk import CallKey as CallKey, Walk as Walk, meetings as meetings, walks_of as walks_of
from simfrontier.simulation.which_engine import simulate as simulate
