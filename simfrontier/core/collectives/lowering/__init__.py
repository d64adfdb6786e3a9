"""Lowering: collectives as explicit transfers, each algorithm proved against what its collective means."""

from simfrontier.core.collectives.lowering.lower import LoweredSchedule, lower
from simfrontier.core.collectives.lowering.prove import prove
from simfrontier.core.collectives.lowering.recipe import Recipe
from simfrontier.core.collectives.lowering.store import load_lowered, save_lowered
from simfrontier.core.collectives.lowering.transfers import Lowered, Transfer

__all__ = [
    "Lowered",
    "LoweredSchedule",
    "Recipe",
    "Transfer",
    "load_lowered",
    "lower",
    "prove",
    "save_lowered",
]
