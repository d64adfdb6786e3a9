"""The pricing of a schedule: the work of every op on a machine, by the classes of a folded fabric.

An op is a latency and then an amount that flows at a fair rate. A kernel's amount is its memory traffic, capped so
that alone it takes its roofline time; a collective's amount is the payload on its busiest wire.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from simfrontier.core.cost.call import OpWork, PricedOp
from simfrontier.core.cost.collective import priced_collective
from simfrontier.core.cost.compute import priced_compute
from simfrontier.core.cost.exchange import priced_exchange
from simfrontier.core.cost.folded_pricing import FoldedPricing
from simfrontier.core.program import Collective, Compute, Exchange, Op


@dataclass
class Pricing(FoldedPricing):
    """A schedule's ops priced on a machine, each distinct op once."""

    priced: dict[int, PricedOp] = field(default_factory=dict, init=False)

    def of(self, op: Op) -> PricedOp:
        """The priced op (each distinct op is priced once)."""
        known = self.priced.get(op.number)
        if known is None:
            match op:
                case Compute():
                    known = priced_compute(self, op)
                case Collective():
                    known = priced_collective(self, op)
                case Exchange():
                    known = priced_exchange(self, op)
            self.priced[op.number] = known
        return known

    def work_of(self, op: Op, cls: int) -> OpWork:
        """What an op asks of the machine on a rank class."""
        priced = self.of(op)
        return priced.works[int(self.folding.activity_of(priced.pattern)[cls])]
