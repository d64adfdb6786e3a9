"""The network: a job's links, what collectives load on them, fair rates, and folding of what is alike."""

from simfrontier.network.fabric import Fabric, Kind
from simfrontier.network.fold import Column, Folding, fold
from simfrontier.network.maxmin import solve
from simfrontier.network.pairs import paired
from simfrontier.network.pattern import Pattern, direct, equal_parts, finished, local, meeting, ring, tree
from simfrontier.network.perturbation import Perturbation

__all__ = [
    "Column",
    "Fabric",
    "Folding",
    "Kind",
    "Pattern",
    "Perturbation",
    "direct",
    "equal_parts",
    "finished",
    "fold",
    "local",
    "meeting",
    "paired",
    "ring",
    "solve",
    "tree",
]
