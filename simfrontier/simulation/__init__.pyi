from .engine import simulate as simulate
from .lowering import lowered_schedule as lowered_schedule
from .memory import (
    KINDS as KINDS,
    MemoryTimeline as MemoryTimeline,
    fullest as fullest,
    memory_timeline as memory_timeline,
)
from .resample import DurationFactors as DurationFactors, resampled_s as resampled_s
from .resample_roles import RoleFactors as RoleFactors, resampled_roles_s as resampled_roles_s
from .role_timelines import RoleTimeline as RoleTimeline
from .role_view import RoleView as RoleView
from .step import (
    LEVELS as LEVELS,
    Fidelity as Fidelity,
    Level as Level,
    SimulatedStep as SimulatedStep,
    simulate_step as simulate_step,
)
from .timeline import Timeline as Timeline
from .waits import earlier as earlier
