from .alone import EqualGroups as EqualGroups
from .coding import NO_CODING as NO_CODING, PerHopCoding as PerHopCoding
from .compute import Kernel as Kernel
from .exchange import pair_shape as pair_shape
from .folded_pattern import FoldedPattern as FoldedPattern
from .on_machine import (
    Placement as Placement,
    folded_anew as folded_anew,
    placed as placed,
    price as price,
    price_states as price_states,
)
from .prices import Prices as Prices
from .pricing import Pricing as Pricing
from .role_assignment import pairs_of as pairs_of
from .varied_prices import VariedPrices as VariedPrices
from .work import Flow as Flow, OpWork as OpWork, PricedOp as PricedOp
