"""The network: a job's links, patterns of loads on them, fair rates, and folding of what is alike."""

from simfrontier.network.fabric import Fabric, ResourceKind
from simfrontier.network.fold import Folding, LoadColumn, fold
from simfrontier.network.maxmin import solve
from simfrontier.network.messages import messages_loads
from simfrontier.network.pairs import paired
from simfrontier.network.pattern import Pattern, assemble, equal_parts, finished, local, masks, meeting, pool_loads
from simfrontier.network.perturbation import Perturbation

__all__ = [
    "Fabric",
    "Folding",
    "LoadColumn",
    "Pattern",
    "Perturbation",
    "ResourceKind",
    "assemble",
    "equal_parts",
    "finished",
    "fold",
    "local",
    "masks",
    "meeting",
    "messages_loads",
    "paired",
    "pool_loads",
    "solve",
]
