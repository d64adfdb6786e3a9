"""Slowdown: what trouble costs, by plan: a step with something wrong over a healthy one."""

from simfrontier.answers.slowdown.results import (
    LaggingDevices as LaggingDevices,
    Slowdown as Slowdown,
    SlowedPlan as SlowedPlan,
)
from simfrontier.answers.slowdown.run import num_slowdowns as num_slowdowns, run_slowdown as run_slowdown
