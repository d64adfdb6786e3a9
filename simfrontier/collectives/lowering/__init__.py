"""Lowering: collectives as explicit transfers, each algorithm proved against what its collective means."""

from simfrontier.collectives.lowering.lower import CARRIES, lower
from simfrontier.collectives.lowering.program import LoweredSchedule
from simfrontier.collectives.lowering.prove import prove
from simfrontier.collectives.lowering.recipe import Lowering, Recipe
from simfrontier.collectives.lowering.store import load_lowered, save_lowered
from simfrontier.collectives.lowering.transfers import Lowered, Transfer

__all__ = [
    "CARRIES",
    "Lowered",
    "LoweredSchedule",
    "Lowering",
    "Recipe",
    "Transfer",
    "load_lowered",
    "lower",
    "prove",
    "save_lowered",
]
