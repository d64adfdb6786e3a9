"""Load pattern of a communication on a folded fabric, and the rates at which its groups send without contention from
other patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.network import Fabric, Folding, LoadColumn, Pattern, fold, solve

LONE = "alone"  # key of the one pattern of a folding
AT_ONCE = 2**21  # elements of an array at most, to limit memory


@dataclass(frozen=True, slots=True, eq=False)
class FoldedPattern:
    """Activity classes (equivalent groups) of one load pattern in a folding of ranks and links; the folding may be of
    that pattern alone or of all patterns of a schedule.

    peak     [num_classes] largest payload on one wire
    edges    [num_classes, 3] number of messages that cross each kind of boundary
    columns  [num_classes] load of each class on each link class
    """

    fabric: Fabric
    folding: Folding
    peak: Floats
    edges: Ints
    columns: tuple[LoadColumn, ...]

    @classmethod
    def of(cls, fabric: Fabric, folding: Folding, key: str, pattern: Pattern) -> FoldedPattern:
        """Return the pattern with key `key` in a folding."""
        _, first = np.unique(folding.activity_class[key], return_index=True)
        columns = tuple([folding.column(key, number) for number in range(len(first))])
        return cls(fabric, folding, pattern.peak[first], pattern.edges[first], columns)

    @classmethod
    def alone(cls, fabric: Fabric, pattern: Pattern, exact: bool = False) -> FoldedPattern:
        """Return a pattern folded without other patterns; `exact`: each group is a class of its own."""
        return cls.of(fabric, fold(fabric, {LONE: pattern}, exact=exact), LONE, pattern)

    def sent_per_s(
        self,
        cap_bytes_per_s: float | Floats,
        scale: Mapping[str, float | Floats] | None = None,
        runs: Sequence[bool] | None = None,
    ) -> Floats:
        """Return the bytes per second that a rank of each activity class sends; the rates of all classes are max-min
        fair.

        Args:
            cap_bytes_per_s: maximum rate at which the library lets a rank send, one number or [num_variations].
            scale: factor on the capacity of each class of links, by its name, one number or [num_variations]; None: 1.
            runs: [num_classes] which classes communicate; the rate of the others is 0. None: all.

        Returns:
            [num_classes], or [num_classes, num_variations] if the cap has a value for each variation.
        """
        cap = np.multiply.outer(self.peak, cap_bytes_per_s)
        speeds = self.speeds(cap.reshape(len(cap), -1), scale, runs)
        return (speeds / self.peak[:, None]).reshape(cap.shape)

    def speeds(
        self,
        cap: Floats,
        scale: Mapping[str, float | Floats] | None = None,
        runs: Sequence[bool] | None = None,
        eased: Floats | None = None,
    ) -> Floats:
        """Return the max-min fair rates of `sent_per_s`, expressed as speeds of the classes' busiest wires
        [num_classes, num_variations], where num_variations is that of `cap`; `eased`: fraction of the load that counts
        [num_link_classes]."""
        rows = np.unique(np.concatenate([column.rows[column.wire > 0.0] for column in self.columns]))
        usage = np.zeros((len(rows), len(self.columns)))
        for number, column in enumerate(self.columns):
            wires = column.wire > 0.0
            usage[np.searchsorted(rows, column.rows[wires]), number] = column.wire[wires]
        if eased is not None:
            usage *= eased[rows, None]
        capacity = np.repeat(self.folding.capacity[rows, None], cap.shape[1], axis=1)
        if scale is not None:
            classes = self.fabric.link_class[self.folding.link_representative[rows]].tolist()
            for row, number in enumerate(classes):
                capacity[row] *= scale[self.fabric.class_names[number]]
        running = np.ones(cap.shape, bool) if runs is None else np.repeat(np.array(runs)[:, None], cap.shape[1], axis=1)
        speeds, step = np.empty(cap.shape), max(1, AT_ONCE // max(1, usage.size))
        for first in range(0, cap.shape[1], step):
            some = slice(first, first + step)
            speeds[:, some] = solve(usage, capacity[:, some], cap[:, some], running[:, some])
        return speeds
