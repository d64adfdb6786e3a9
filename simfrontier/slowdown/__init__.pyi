from .results import LaggingDevices as LaggingDevices, Slowdown as Slowdown, SlowedPlan as SlowedPlan
from .run import num_slowdowns as num_slowdowns, run_slowdown as run_slowdown
