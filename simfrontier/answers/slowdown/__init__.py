"""Slowdown by degraded components: the step time of each plan with a degraded component, relative to the
healthy step.
"""

from simfrontier.answers.slowdown.results import (
    LaggingDevices as LaggingDevices,
    Slowdown as Slowdown,
    SlowedPlan as SlowedPlan,
)
from simfrontier.answers.slowdown.run import num_slowdowns as num_slowdowns, run_slowdown as run_slowdown
