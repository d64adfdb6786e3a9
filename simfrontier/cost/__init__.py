"""What an op takes alone, and what a collective takes alone: everything that needs a price asks here."""

from simfrontier.cost.alone import EqualGroups
from simfrontier.cost.cluster import Cluster
from simfrontier.cost.coding import NO_CODING, PerHopCoding
from simfrontier.cost.compute import compute_s
from simfrontier.cost.exchange import pair_shape
from simfrontier.cost.price import Placement, price
from simfrontier.cost.prices import Prices
from simfrontier.cost.rates import rates_alone
from simfrontier.cost.role_assignment import RoleAssignment
from simfrontier.cost.work import LOCAL, Flow, OpWork, PricedOp

__all__ = [
    "LOCAL",
    "NO_CODING",
    "Cluster",
    "EqualGroups",
    "Flow",
    "OpWork",
    "PerHopCoding",
    "Placement",
    "PricedOp",
    "Prices",
    "RoleAssignment",
    "compute_s",
    "pair_shape",
    "price",
    "rates_alone",
]
