"""Plans: where the states of a model lie on the mesh, and the schedules that follow from it."""

from simfrontier.plan.build import build
from simfrontier.plan.families import FAMILIES, make_plan
from simfrontier.plan.moves import Hop
from simfrontier.plan.options import Options
from simfrontier.plan.plan import Engine, Plan

__all__ = ["FAMILIES", "Engine", "Hop", "Options", "Plan", "build", "make_plan"]
