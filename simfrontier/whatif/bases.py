"""Steps that are simulated exactly: a few of the variations, far apart from each other, from which others are answered.

How far apart two variations are is counted in seconds: by how much the times alone of all ops of the step differ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from simfrontier.arrays import Floats, Ints
from simfrontier.cost import Cluster
from simfrontier.schedule import Op
from simfrontier.simulation import SimulatedStep, scaled_s
from simfrontier.whatif.prices import VariedPrices

AT_ONCE = 4096  # step times of a pass: with fewer, most of it is Python, with more, memory


@dataclass(frozen=True, kw_only=True, eq=False)
class Bases:
    """`number` [num_steps]: of the variations that were simulated, the one as it is (0) first; `step_s` [num_steps]:
    their step times; `apart_s` [num_steps, num_variations]: how far apart from each step all variations are. `steps`:
    those whose ops may be scaled, None where the library takes other algorithms, so that other links are loaded.
    `times` [num_ops, num_variations]: times alone of all calls of each distinct op, in seconds."""

    prices: VariedPrices
    number: Ints
    step_s: Floats
    apart_s: Floats
    steps: tuple[SimulatedStep | None, ...]
    times: Floats

    def replayed_s(self, base: Ints, rows: Ints) -> Floats:
        """Step times of variations `rows`, each from one of the steps, `base` [len(rows)]."""
        out = np.empty(len(rows))
        for number in np.unique(base).tolist():
            step = self.steps[number]
            assert step is not None, f"step {number} may not be scaled"
            mine = np.flatnonzero(base == number)
            for part in np.array_split(mine, -(-len(mine) // AT_ONCE)):
                of = self.number[base[part]]
                out[part] = scaled_s(step, len(part), partial(self._factors, of, rows[part]))
        return out

    def _factors(self, of: Ints, rows: Ints, op: Op) -> Floats:
        alone = self.prices.alone_s(op)
        before = alone[:, of]
        return np.divide(alone[:, rows], before, out=np.ones(before.shape), where=before > 0.0)


def simulated_bases(
    prices: VariedPrices, step: SimulatedStep, simulate: Callable[[int], SimulatedStep], num_steps: int, num: int
) -> Bases:
    """Simulates some of the first `num` variations until there are `num_steps`: each time the one that is farthest from
    all that were, where the library takes the same algorithms as in the step. Raises UnknownLawError."""
    times = np.array([count * prices.alone_s(op).mean(axis=0) for op, count in _counted(step)])
    steps: list[SimulatedStep | None] = [step]
    number, step_s, apart = [0], [step.step_s], [_apart(times, 0)]
    while len(number) < num_steps:
        nearest = np.min(apart, axis=0)
        nearest[number] = -1.0
        nearest[prices.has_other_ways] = nearest[num:] = -1.0
        next_one = int(nearest.argmax())
        if nearest[next_one] < 0.0:
            break
        made = simulate(next_one)
        number.append(next_one)
        step_s.append(made.step_s)
        apart.append(_apart(times, next_one))
        alike = _are_alike(step.cluster, made.cluster)
        for op, _ in _counted(step) if alike else ():
            prices.hold(op, made.cluster, next_one)
        steps.append(made if alike else None)
    return Bases(
        prices=prices,
        number=np.array(number),
        step_s=np.array(step_s),
        apart_s=np.array(apart),
        steps=tuple(steps),
        times=times,
    )


def unseen(prices: VariedPrices, step: SimulatedStep, keys: Sequence[str], first: int) -> tuple[str, ...]:
    """The keys that change the time alone of no op, such as what ops take of each other's links: nothing tells their
    variations apart. From `first` on there are two variations for each key, which differ in it alone."""
    times = np.concatenate([prices.alone_s(op)[:, first : first + 2 * len(keys)] for op, _ in _counted(step)])
    is_same = (times[:, 0::2] == times[:, 1::2]).all(axis=0)
    return tuple(key for key, same in zip(keys, is_same.tolist(), strict=True) if same)


def _counted(step: SimulatedStep) -> Iterator[tuple[Op, int]]:
    """The distinct ops of a step, and how often each stands in its roles."""
    ops: dict[int, Op] = {}
    counts = Counter[int]()
    for role in step.roles:
        for op, block in zip(role.segmented.program.ops, role.segmented.blocks, strict=True):
            for each in (op,) if block is None else block:
                ops[each.number] = each
                counts[each.number] += 1
    yield from ((op, counts[number]) for number, op in ops.items())


def _apart(times: Floats, number: int) -> Floats:
    """Seconds by which the times of all ops differ from those of a variation [num_variations]."""
    out: Floats = np.abs(times - times[:, number, None]).sum(axis=0)
    return out


def _are_alike(one: Cluster, other: Cluster) -> bool:
    """Whether the same algorithms load the same links, and classes have the same numbers."""
    return one.algorithms == other.algorithms and all(
        np.array_equal(classes, other.folding.activity_class[key])
        and one.folding.members(key) == other.folding.members(key)
        for key, classes in one.folding.activity_class.items()
    )
