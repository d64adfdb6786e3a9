from .alone import EqualGroups as EqualGroups
from .choice import pattern_key as pattern_key
from .cluster import Cluster as Cluster
from .coding import NO_CODING as NO_CODING, PerHopCoding as PerHopCoding
from .collective import call_s as call_s
from .compute import compute_s as compute_s, kernel_parts as kernel_parts
from .exchange import exchange_latency_s as exchange_latency_s, pair_shape as pair_shape
from .on_machine import (
    Placement as Placement,
    folded_anew as folded_anew,
    placed as placed,
    price as price,
    price_states as price_states,
)
from .prices import Prices as Prices
from .rates import rates_alone as rates_alone
from .role_assignment import pairs_of as pairs_of
from .work import Flow as Flow, OpWork as OpWork, PricedOp as PricedOp
