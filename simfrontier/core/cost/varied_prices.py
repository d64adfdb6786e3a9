"""Prices of ops under variations of machine and library parameters: seconds without contention, for all variations at
once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.base.errors import SimfrontierError
from simfrontier.core.collectives import GroupShape, Library, algorithm
from simfrontier.core.cost.alone import pattern_key
from simfrontier.core.cost.call import Call, exchange_s, pair_shape
from simfrontier.core.cost.compute import Kernel, PerHopCoding
from simfrontier.core.cost.folded_pattern import FoldedPattern
from simfrontier.core.cost.pricing import Pricing
from simfrontier.core.machine import Machine
from simfrontier.core.program import DIRECT, Collective, Compute, Exchange, Op

CLOSE: Final = 1e-9  # relative: the pricing of a schedule and these add the same numbers in another order


class VariedPrices:
    """Times of ops in seconds without contention, for each activity class [num_activity_classes, num_variations], by
    the same formulas as the prices for a simulation. Varied parameters of machine and library are arrays
    [num_variations]; variation 0 is the pricing itself."""

    def __init__(self, pricing: Pricing, machine: Machine, library: Library, num_variations: int) -> None:
        self.pricing, self.machine, self.library, self.num_variations = pricing, machine, library, num_variations
        self._rates_of: dict[tuple[str, tuple[bool, ...] | None], Floats] = {}
        self._folded: dict[str, FoldedPattern] = {}  # patterns of algorithms other than the pricing's, folded alone
        self._scales: dict[str, dict[str, Floats]] = {}
        self._known: dict[int, Floats] = {}
        self.has_other_algorithm = np.zeros(self.num_variations, bool)  # for any call

    def alone_s(self, op: Op) -> Floats:
        """Return the time of an op in seconds [num_activity_classes, num_variations]; 0 for classes that take no part
        in the op or stand still. Raises SimfrontierError if variation 0 differs from the pricing."""
        if op.number not in self._known:
            base = np.array([work.alone_s for work in self.pricing.of(op).works])
            match op:
                case Compute():
                    made = self._compute(op)
                case Collective():
                    made = self._collective(op, base)
                case Exchange():
                    made = self._exchange(op)
            base = np.where(np.isfinite(base), base, 0.0)
            made[base == 0.0] = 0.0
            if not np.allclose(made[:, 0], base, rtol=CLOSE, atol=0.0):
                raise SimfrontierError(f"the time of {op.name} follows another law than what-ifs know")
            self._known[op.number] = made
        return self._known[op.number]

    def factor(self, rows: Ints, op: Op) -> Floats:
        """Return the time of an op relative to variation 0, for the variations `rows` [num_activity_classes,
        len(rows)]."""
        alone = self.alone_s(op)
        before = np.repeat(alone[:, :1], len(rows), axis=1)
        return np.divide(alone[:, rows], before, out=np.ones(before.shape), where=before > 0.0)

    def _compute(self, op: Compute) -> Floats:
        speeds = self.pricing.fabric.speed[self.pricing.folding.representative]
        out = np.zeros((len(speeds), self.num_variations))
        kernel, runs = Kernel.of(op, self.pricing.schedule, self.machine), speeds > 0.0
        out[runs] = kernel.seconds(speeds[runs, None])  # type: ignore[arg-type]
        return out

    def _exchange(self, op: Exchange) -> Floats:
        folded, volume = self.pricing.folded(self.pricing.key_of(op)), self.pricing.volume_bytes(op)
        out = np.zeros((len(folded.edges), self.num_variations))
        sent = self._rates(self.pricing.key_of(op), DIRECT, None, folded, None)
        for cls, (edges, rate) in enumerate(zip(folded.edges.tolist(), sent, strict=True)):
            if any(edges) and rate.all():
                out[cls] = exchange_s(volume, pair_shape(edges), self.library, rate)
        return out

    def _collective(self, op: Collective, base: Floats) -> Floats:
        """Return the time of a collective by the algorithm that the library uses in each variation; measured times do
        not vary."""
        out = np.repeat(base[:, None], self.num_variations, axis=1)
        if self.pricing.table(op) is not None:
            return out
        call = self.pricing.call(op)
        left = {name: is_left for name, is_left in call.algorithms_left(self.library).items() if np.any(is_left)}
        fastest = self._fastest(op, call, left)
        for place, name in enumerate(left):
            those = fastest == place
            if those.any():
                self.has_other_algorithm |= those & (name != self.pricing.algorithms[op.number])
                seconds = self._call_s(op, call, name, self._sent(op, name))
                out[:, those] = np.broadcast_to(seconds, out.shape)[:, those]
        return out

    def _fastest(self, op: Collective, call: Call, left: Mapping[str, bool]) -> Ints:
        """Return the index in `left` of the algorithm that the library uses in each variation [num_variations]."""
        if len(left) == 1:
            return np.zeros(self.num_variations, np.int64)
        seconds = np.empty((len(left), self.num_variations))
        for row, (name, is_left) in zip(seconds, left.items(), strict=True):
            row[:] = np.where(is_left, self._call_s(op, call, name, self._slowest(op, name)), np.inf)
        fastest: Ints = seconds.argmin(axis=0)
        return fastest

    def _call_s(self, op: Collective, call: Call, name: str, sent: Floats) -> Floats:
        """Return the time of a collective call by the algorithm `name` if ranks send at the rates `sent` [...,
        num_variations]."""
        schedule = self.pricing.schedule
        hops = PerHopCoding.of(op, schedule.tensors, schedule.mesh, self.machine)
        seconds: Any = call.seconds(name, self.library, sent)  # type: ignore[arg-type]
        return np.asarray(seconds + hops.added_s(call.volume_bytes(name), self.machine))

    def _sent(self, op: Collective, name: str) -> Floats:
        """Return the sending rate of every activity class with the algorithm `name`; if the classes belong to another
        algorithm's pattern, return the rate of the slowest group instead."""
        pricing, key = self.pricing, pattern_key(op.axes, name)
        if op.number in pricing.small or name != pricing.algorithms[op.number]:
            return self._slowest(op, name)
        return self._rates(key, name, pricing.shape(op.axes), pricing.folded(key), pricing.runs(op, key))

    def _slowest(self, op: Collective, name: str) -> Floats:
        """Return the sending rate of the slowest group with the algorithm `name`, when all groups communicate
        [num_variations]."""
        pricing, key = self.pricing, pattern_key(op.axes, name)
        if key in pricing.counted:
            folded = pricing.by_itself(key)
        elif key not in self._folded:
            pattern = algorithm(name).loads(pricing.fabric, pricing.schedule.mesh.groups(op.axes), pricing.library)
            folded = self._folded[key] = FoldedPattern.alone(pricing.fabric, pattern)
        else:
            folded = self._folded[key]
        slowest: Floats = self._rates(key, name, pricing.shape(op.axes), folded, None).min(axis=0)
        return slowest

    def _rates(
        self, key: str, by: str, shape: GroupShape | None, folded: FoldedPattern, runs: tuple[bool, ...] | None
    ) -> Floats:
        """Return the bytes per second that a rank of each activity class sends [num_activity_classes, num_variations];
        without a `shape` the library's cap is not applied."""
        if (key, runs) not in self._rates_of:
            cap = np.inf if shape is None else algorithm(by).cap_bytes_per_s(self.library, shape)
            self._rates_of[key, runs] = folded.sent_per_s(
                np.broadcast_to(cap, self.num_variations), self._scale(by), runs
            )
        return self._rates_of[key, runs]

    def _scale(self, by: str) -> dict[str, Floats]:
        """Return the capacity of each class of links that the algorithm `by` reaches, relative to variation 0
        [num_variations]."""
        if by not in self._scales:
            shares, links = algorithm(by).shares_on(self.library, self.machine), self.machine.link_classes
            carried = {
                name: np.broadcast_to(shares[name] * link.bytes_per_s, self.num_variations)
                for name, link in links.items()
            }
            self._scales[by] = {name: each / each[0] for name, each in carried.items()}
        return self._scales[by]
