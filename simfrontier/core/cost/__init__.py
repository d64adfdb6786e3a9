"""Prices of ops on a machine: the time of an op or a collective without contention, and its load on links and devices.
All other packages take their prices from here."""

from simfrontier.core.cost.alone import EqualGroups as EqualGroups
from simfrontier.core.cost.call import Flow as Flow, OpWork as OpWork, PricedOp as PricedOp, pair_shape as pair_shape
from simfrontier.core.cost.compute import NO_CODING as NO_CODING, Kernel as Kernel, PerHopCoding as PerHopCoding
from simfrontier.core.cost.folded_pattern import FoldedPattern as FoldedPattern
from simfrontier.core.cost.layout import pairs_of as pairs_of
from simfrontier.core.cost.prices import Prices as Prices
from simfrontier.core.cost.pricing import (
    Placement as Placement,
    Pricing as Pricing,
    folded_anew as folded_anew,
    placed as placed,
    price as price,
    price_states as price_states,
)
from simfrontier.core.cost.varied_prices import VariedPrices as VariedPrices
