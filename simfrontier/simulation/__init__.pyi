from .call_factors import lasting as lasting
from .longest_path import passed as passed
from .lowering import lowered_schedule as lowered_schedule, recipes_of as recipes_of
from .many_speeds import speed_error as speed_error
from .memory import (
    KINDS as KINDS,
    MemoryTimeline as MemoryTimeline,
    fullest as fullest,
    memory_timeline as memory_timeline,
)
from .neighbour import Neighbour as Neighbour
from .notes import step_note as step_note
from .resample import DurationFactors as DurationFactors, resampled as resampled, resampled_s as resampled_s
from .spans import spans_of as spans_of, trace_notes as trace_notes, trace_of as trace_of
from .step import (
    LEVELS as LEVELS,
    Fidelity as Fidelity,
    Level as Level,
    SimulatedStep as SimulatedStep,
    refuse_unknown as refuse_unknown,
    simulate_step as simulate_step,
)
from .stopped import JobStopsError as JobStopsError
from .timeline import RoleTimeline as RoleTimeline, Timeline as Timeline
from .variations import (
    REPLAY_LARGEST_ERROR as REPLAY_LARGEST_ERROR,
    REPLAY_MEAN_ERROR as REPLAY_MEAN_ERROR,
    varied_step_s as varied_step_s,
)
from .walk import CallKey as CallKey, Walk as Walk, meetings as meetings, walks_of as walks_of
from .which_engine import simulate as simulate
