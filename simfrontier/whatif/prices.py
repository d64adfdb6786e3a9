"""What ops take alone in each variation, by the formulas that price them for a simulation."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.collectives import GroupShape, candidate_algorithms, exchanged_bytes, messages_of
from simfrontier.cost import Cluster, call_s, compute_s, exchange_latency_s, pair_shape, pattern_key
from simfrontier.schedule import Collective, Compute, Exchange, Op
from simfrontier.whatif.many import Given, Many, UnknownLawError, plain
from simfrontier.whatif.numbers import VariedNumbers
from simfrontier.whatif.rates import VariedRates

CLOSE: Final = 1e-9  # relative: engine and replay add the same numbers in another order


class VariedPrices:
    """Seconds of ops alone, of each activity class [num_activity_classes, num_variations]; the first variation is the
    cluster as it is."""

    def __init__(self, cluster: Cluster, numbers: VariedNumbers) -> None:
        self.cluster, self.numbers = cluster, numbers
        self.rates = VariedRates(cluster, numbers)
        self._known: dict[int, Floats] = {}
        self.has_other_ways = np.zeros(numbers.variations.num, bool)  # where a call goes by another algorithm

    def alone_s(self, op: Op) -> Floats:
        """Time of an op; nothing where a class has no part in it, or stands still. Raises UnknownLawError."""
        if op.number not in self._known:
            priced = self.cluster.of(op)
            base = np.array([work.alone_s for work in priced.works])
            match op:
                case Compute():
                    made = self._compute(op)
                case Collective():
                    made = self._collective(op, base)
                case Exchange():
                    made = self._exchange(op)
            made[~np.isfinite(base) | (base == 0.0)] = 0.0
            self._known[op.number] = made
            self.hold(op, self.cluster, 0)
        return self._known[op.number]

    def hold(self, op: Op, cluster: Cluster, variation: int) -> None:
        """Raise UnknownLawError where a cluster that was priced for a variation has another time of an op."""
        own = np.array([work.alone_s for work in cluster.of(op).works])
        own = np.where(np.isfinite(own), own, 0.0)
        if not np.allclose(self.alone_s(op)[:, variation], own, rtol=CLOSE, atol=0.0):
            raise UnknownLawError(f"the time of {op.name} follows another law than what-ifs know")

    def _compute(self, op: Compute) -> Floats:
        cluster, (machine, variations) = self.cluster, (self.numbers.machine, self.numbers.variations)
        speeds = cluster.fabric.speed[cluster.folding.representative].tolist()
        each = {
            speed: variations.values(partial(compute_s, op, cluster.schedule, machine, speed))
            for speed in set(speeds)
            if speed
        }
        nothing = np.zeros(variations.num)
        return np.array([each.get(speed, nothing) for speed in speeds])

    def _collective(self, op: Collective, base: Floats) -> Floats:
        """By what the library takes in each variation; a call of which times were measured takes these."""
        cluster, variations = self.cluster, self.numbers.variations
        if cluster.table(op) is not None:
            return np.repeat(base[:, None], variations.num, axis=1)
        out = np.empty((len(base), variations.num))
        for those, name in variations.apart(partial(self._taken, op)):
            self.has_other_ways[those] |= name != cluster.algorithms[op.number]
            for cls, sent in enumerate(self._sent(op, name, len(base))):
                if not base[cls]:
                    continue
                for rows, seconds in variations.apart(partial(self._call_s, op, name, sent)):
                    out[cls, rows] = plain(seconds)
        return out

    def _taken(self, op: Collective) -> str:
        """The algorithm that the library takes."""
        cluster = self.cluster
        largest = max(message.num_bytes for message in messages_of(op, cluster.schedule.tensors, cluster.schedule.mesh))
        shape = cluster.shape(op.axes)
        options = candidate_algorithms(self.numbers.library, op.kind, op.is_added_later, op.via, largest, shape)
        if len(options) == 1:
            return options[0]
        return min(options, key=lambda name: self._call_s(op, name, self._slowest(op, name)))

    def _call_s(self, op: Collective, name: str, sent: Many) -> float:
        numbers, cluster = self.numbers, self.cluster
        shape = cluster.shape(op.axes)
        return call_s(op, name, cluster.schedule, numbers.library, numbers.machine, shape, sent)  # type: ignore[arg-type]

    def _sent(self, op: Collective, name: str, num_classes: int) -> list[Given]:
        """The rate of every activity class: that of the slowest where the classes are not of this algorithm."""
        cluster, key = self.cluster, pattern_key(op.axes, name)
        if op.number in cluster.small or name != cluster.algorithms[op.number]:
            return [self._slowest(op, name)] * num_classes
        return self.rates.of(key, cluster.runs(op, key))

    def _slowest(self, op: Collective, name: str) -> Given:
        each = self.rates.of_call(op.axes, name, pattern_key(op.axes, name))
        return self.numbers.variations.number(np.min([rate.every for rate in each], axis=0))

    def _exchange(self, op: Exchange) -> Floats:
        cluster, variations = self.cluster, self.numbers.variations
        volume = float(max(exchanged_bytes(op, cluster.schedule.tensors, cluster.schedule.mesh)))
        key = cluster.key_of(op)
        first = np.unique(cluster.folding.activity_class[key], return_index=True)[1]
        edges = cluster.patterns[key].edges[first].tolist()
        out = np.zeros((len(edges), variations.num))
        for cls, (crossed, sent) in enumerate(zip(edges, self.rates.of(key, (True,) * len(edges)), strict=True)):
            if any(crossed):
                out[cls] = variations.values(partial(self._exchange_s, volume, pair_shape(crossed), sent))
        return out

    def _exchange_s(self, volume: float, shape: GroupShape, sent: Many) -> Any:
        return exchange_latency_s(volume, shape, self.numbers.library, sent) + volume / sent  # type: ignore[arg-type]
