"""What ranks send alone on a machine whose links differ from one variation to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.collectives import Library, algorithm as algorithm_of
from simfrontier.cost import Cluster
from simfrontier.machine import Machine
from simfrontier.network import Folding, fold, solve_each
from simfrontier.whatif.many import Given
from simfrontier.whatif.numbers import VariedNumbers

LONE = "alone"  # key of the one pattern of a folding
AT_ONCE = 2**21  # numbers of an array, so that it stays small


class VariedRates:
    """Bytes per second that a rank sends in each activity class of a pattern, nothing else running.

    A link carries in proportion to its capacity and to the share of it that the algorithm reaches: both vary by class
    of link, and nothing else of a pattern does.
    """

    def __init__(self, cluster: Cluster, numbers: VariedNumbers) -> None:
        self.cluster, self.numbers = cluster, numbers
        self._rates: dict[tuple[str, tuple[bool, ...] | None], list[Given]] = {}
        self._lone: dict[str, tuple[Folding, Floats]] = {}
        self._scales: dict[str, dict[str, Floats]] = {}

    def of(self, key: str, runs: tuple[bool, ...]) -> list[Given]:
        """By activity class of a pattern of the cluster, of which those run that `runs` says."""
        if (key, runs) not in self._rates:
            by = self.cluster.carrier(key)
            self._rates[key, runs] = self._solved(self.cluster.folding, key, self.cluster.peak(key), by, key, runs)
        return self._rates[key, runs]

    def of_call(self, axes: tuple[str, ...], by: str, key: str) -> list[Given]:
        """The same of groups over some axes by any algorithm, all running."""
        if key in self.cluster.patterns:
            return self.of(key, (True,) * len(self.cluster.folding.count(key)))
        if (key, None) not in self._rates:
            folding, peaks = self._folded(axes, by, key)
            self._rates[key, None] = self._solved(folding, LONE, peaks, by, key, (True,) * len(peaks), axes)
        return self._rates[key, None]

    def _folded(self, axes: tuple[str, ...], by: str, key: str) -> tuple[Folding, Floats]:
        cluster = self.cluster
        if key not in self._lone:
            pattern = cluster.counted.get(key)
            if pattern is None:
                groups = cluster.schedule.mesh.groups(axes)
                pattern = algorithm_of(by).loads(cluster.fabric, groups, cluster.library)
            folding = fold(cluster.fabric, {LONE: pattern})
            self._lone[key] = folding, pattern.peak[np.unique(folding.activity_class[LONE], return_index=True)[1]]
        return self._lone[key]

    def _solved(
        self,
        folding: Folding,
        key: str,
        peaks: Floats,
        by: str,
        name: str,
        runs: Sequence[bool],
        axes: tuple[str, ...] | None = None,
    ) -> list[Given]:
        variations = self.numbers.variations
        columns = [folding.column(key, cls) for cls in range(len(peaks))]
        rows = np.unique(np.concatenate([column.rows[column.wire > 0.0] for column in columns]))
        usage = np.zeros((len(rows), len(columns)))
        for cls, column in enumerate(columns):
            wires = column.wire > 0.0
            usage[np.searchsorted(rows, column.rows[wires]), cls] = column.wire[wires]
        fabric, scales = self.cluster.fabric, self._scale(by)
        names = [fabric.class_names[n] for n in fabric.link_class[folding.link_representative[rows]].tolist()]
        capacity = np.empty((len(rows), variations.num))
        for row, (link, nominal) in enumerate(zip(names, folding.capacity[rows].tolist(), strict=True)):
            capacity[row] = nominal * scales[link]
        cap = np.broadcast_to(self._cap(name, by, axes), (len(peaks), variations.num)) * peaks[:, None]
        running = np.array(runs, bool)[:, None]
        rates = np.empty(cap.shape)
        step = max(1, AT_ONCE // max(1, usage.size))
        for first in range(0, variations.num, step):
            some = slice(first, first + step)
            given = capacity[:, some]
            running_each = np.broadcast_to(running, cap[:, some].shape)
            rates[:, some], _ = solve_each(usage[:, :, None], given, np.zeros(given.shape), cap[:, some], running_each)
        return [variations.number(rate / peak) for rate, peak in zip(rates, peaks.tolist(), strict=True)]

    def _cap(self, key: str, by: str, axes: tuple[str, ...] | None) -> Floats:
        """What the library lets a rank send at most."""
        if axes is None:
            if key not in self.cluster.carried:
                return np.full(self.numbers.variations.num, math.inf)
            axes = self.cluster.carried[key][0]
        shape = self.cluster.shape(axes)
        return self.numbers.variations.values(lambda: algorithm_of(by).cap_bytes_per_s(self.numbers.library, shape))

    def _scale(self, by: str) -> dict[str, Floats]:
        """Of each class of links, how many times as much it carries by an algorithm as in the first variation."""
        if by not in self._scales:
            machine, library, variations = self.numbers.machine, self.numbers.library, self.numbers.variations
            carried = {
                name: variations.values(partial(_carried, library, machine, by, name)) for name in machine.link_classes
            }
            self._scales[by] = {name: each / each[0] for name, each in carried.items()}
        return self._scales[by]


def _carried(library: Library, machine: Machine, by: str, name: str) -> float:
    """Bytes per second that links of a class carry by an algorithm."""
    return algorithm_of(by).shares_on(library, machine)[name] * machine.link_classes[name].bytes_per_s
