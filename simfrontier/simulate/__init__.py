"""Simulation: ops priced on a machine, and SimPy's clock over folded ranks."""

from simfrontier.simulate.analytic import analytic
from simfrontier.simulate.engine import simulate
from simfrontier.simulate.pricing import LOCAL, Cluster, price
from simfrontier.simulate.step import LEVELS, Fidelity, Level, SimulatedStep, simulate_step
from simfrontier.simulate.timeline import Timeline

__all__ = [
    "LEVELS",
    "LOCAL",
    "Cluster",
    "Fidelity",
    "Level",
    "SimulatedStep",
    "Timeline",
    "analytic",
    "price",
    "simulate",
    "simulate_step",
]
