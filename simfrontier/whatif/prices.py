"""What ops take alone in each variation, by the formulas that price them for a simulation."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.collectives import GroupShape, algorithm
from simfrontier.cost import Call, Cluster, FoldedPattern, Kernel, PerHopCoding, exchange_s, pair_shape, pattern_key
from simfrontier.schedule import DIRECT, Collective, Compute, Exchange, Op
from simfrontier.whatif.many import Given, Many, UnknownLawError, plain
from simfrontier.whatif.numbers import VariedNumbers

CLOSE: Final = 1e-9  # relative: engine and replay add the same numbers in another order


class VariedPrices:
    """Seconds of ops alone, of each activity class [num_activity_classes, num_variations]; the first variation is the
    cluster as it is."""

    def __init__(self, cluster: Cluster, numbers: VariedNumbers) -> None:
        self.cluster, self.numbers = cluster, numbers
        self._known_rates: dict[tuple[str, tuple[bool, ...] | None], list[Given]] = {}
        self._folded: dict[str, FoldedPattern] = {}  # by themselves
        self._scales: dict[str, dict[str, Floats]] = {}
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
            if not np.allclose(made[:, 0], np.where(np.isfinite(base), base, 0.0), rtol=CLOSE, atol=0.0):
                raise UnknownLawError(f"the time of {op.name} follows another law than what-ifs know")
        return self._known[op.number]

    def factor(self, rows: Ints, op: Op) -> Floats:
        """How many times as long as in the first variation it takes in others [num_activity_classes, len(rows)]."""
        alone = self.alone_s(op)
        before = np.repeat(alone[:, :1], len(rows), axis=1)
        return np.divide(alone[:, rows], before, out=np.ones(before.shape), where=before > 0.0)

    def _compute(self, op: Compute) -> Floats:
        cluster, variations = self.cluster, self.numbers.variations
        speeds = cluster.fabric.speed[cluster.folding.representative]
        out = np.zeros((len(speeds), variations.num))
        for rows, kernel in variations.apart(partial(Kernel.of, op, cluster.schedule, self.numbers.machine)):
            for speed in np.unique(speeds[speeds > 0.0]).tolist():
                out[np.ix_(speeds == speed, np.arange(variations.num)[rows])] = plain(kernel.seconds(speed))
        return out

    def _collective(self, op: Collective, base: Floats) -> Floats:
        """By what the library takes in each variation; a call of which times were measured takes these."""
        cluster, variations = self.cluster, self.numbers.variations
        if cluster.table(op) is not None:
            return np.repeat(base[:, None], variations.num, axis=1)
        out, call = np.empty((len(base), variations.num)), cluster.call(op)
        for those, name in variations.apart(partial(self._taken, op, call)):
            self.has_other_ways[those] |= name != cluster.algorithms[op.number]
            for cls, sent in enumerate(self._sent(op, name, len(base))):
                if not base[cls]:
                    continue
                for rows, seconds in variations.apart(partial(self._call_s, op, call, name, sent)):
                    out[cls, rows] = plain(seconds)
        return out

    def _taken(self, op: Collective, call: Call) -> str:
        """The algorithm that the library takes."""
        options = call.algorithms(self.numbers.library)
        if len(options) == 1:
            return options[0]
        return min(options, key=lambda name: self._call_s(op, call, name, self._slowest(op, name)))

    def _call_s(self, op: Collective, call: Call, name: str, sent: Many) -> Any:
        schedule, machine = self.cluster.schedule, self.numbers.machine
        hops = PerHopCoding.of(op, schedule.tensors, schedule.mesh, machine)
        seconds = call.seconds(name, self.numbers.library, sent)  # type: ignore[arg-type]
        return seconds + hops.added_s(call.volume_bytes(name), machine)

    def _sent(self, op: Collective, name: str, num_classes: int) -> list[Given]:
        """The rate of every activity class: that of the slowest where the classes are not of this algorithm."""
        cluster, key = self.cluster, pattern_key(op.axes, name)
        if op.number in cluster.small or name != cluster.algorithms[op.number]:
            return [self._slowest(op, name)] * num_classes
        return self._rates(key, name, cluster.shape(op.axes), cluster.folded(key), cluster.runs(op, key))

    def _slowest(self, op: Collective, name: str) -> Given:
        """The rate of the slowest group by any algorithm, all running."""
        cluster, key = self.cluster, pattern_key(op.axes, name)
        if key not in self._folded:
            pattern = cluster.counted.get(key)
            if pattern is None:
                groups = cluster.schedule.mesh.groups(op.axes)
                pattern = algorithm(name).loads(cluster.fabric, groups, cluster.library)
            self._folded[key] = FoldedPattern.alone(cluster.fabric, pattern)
        each = self._rates(key, name, cluster.shape(op.axes), self._folded[key], None)
        return self.numbers.variations.number(np.min([rate.every for rate in each], axis=0))

    def _rates(
        self, key: str, by: str, shape: GroupShape | None, folded: FoldedPattern, runs: tuple[bool, ...] | None
    ) -> list[Given]:
        """Bytes per second that a rank sends in each activity class; without a `shape` no library holds it up."""
        variations, library = self.numbers.variations, self.numbers.library
        if (key, runs) not in self._known_rates:
            cap = np.full(variations.num, np.inf)
            if shape is not None:
                cap = variations.values(partial(algorithm(by).cap_bytes_per_s, library, shape))
            sent = folded.sent_per_s(cap, self._scale(by), runs)
            self._known_rates[key, runs] = [variations.number(rate) for rate in sent]
        return self._known_rates[key, runs]

    def _scale(self, by: str) -> dict[str, Floats]:
        """Of each class of links, how many times as much it carries by an algorithm as in the first variation."""
        if by not in self._scales:
            machine, variations = self.numbers.machine, self.numbers.variations
            carried = {name: variations.values(partial(self._carried, by, name)) for name in machine.link_classes}
            self._scales[by] = {name: each / each[0] for name, each in carried.items()}
        return self._scales[by]

    def _carried(self, by: str, name: str) -> float:
        """Bytes per second that links of a class carry by an algorithm."""
        machine = self.numbers.machine
        return algorithm(by).shares_on(self.numbers.library, machine)[name] * machine.link_classes[name].bytes_per_s

    def _exchange(self, op: Exchange) -> Floats:
        cluster, variations, key = self.cluster, self.numbers.variations, self.cluster.key_of(op)
        folded, volume = cluster.folded(key), cluster.volume_bytes(op)
        out = np.zeros((len(folded.edges), variations.num))
        sent = self._rates(key, DIRECT, None, folded, None)
        for cls, (edges, rate) in enumerate(zip(folded.edges.tolist(), sent, strict=True)):
            if any(edges):
                out[cls] = variations.values(
                    partial(exchange_s, volume, pair_shape(edges), self.numbers.library, rate)  # type: ignore[arg-type]
                )
        return out
