"""Simulation: ops priced on a machine, and SimPy's clock over folded ranks."""

from simfrontier.simulate.analytic import analytic
from simfrontier.simulate.engine import simulate
from simfrontier.simulate.step import LEVELS, Fidelity, Level, SimulatedStep, simulate_step
from simfrontier.simulate.timeline import Timeline

__all__ = [
    "LEVELS",
    "Fidelity",
    "Level",
    "SimulatedStep",
    "Timeline",
    "analytic",
    "simulate",
    "simulate_step",
]
