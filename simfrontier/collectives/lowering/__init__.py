"""Lowering: collectives as explicit transfers, each algorithm proved against what its collective means."""

from simfrontier.collectives.lowering.lower import lower
from simfrontier.collectives.lowering.program import LoweredSchedule
from simfrontier.collectives.lowering.prove import prove
from simfrontier.collectives.lowering.recipe import Recipe
from simfrontier.collectives.lowering.store import load_lowered, save_lowered
from simfrontier.collectives.lowering.transfers import Lowered, Transfer

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
