"""Step times of a simulated step for other prices of its ops, all variations in one vectorised pass without an event
loop; and the error bounds of a step in which nodes with devices of different speeds were simulated in classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import numpy as np

from simfrontier.base.arrays import Floats, Ints
from simfrontier.core.cost import Pricing, VariedPrices
from simfrontier.core.engine.durations import SimulatedDurations
from simfrontier.core.engine.step import SimulatedStep
from simfrontier.core.engine.step_path import StepPath
from simfrontier.core.network import ClassRates
from simfrontier.core.program import Collective, Compute, Exchange, Op

AT_ONCE: Final = 4096  # step times per pass: fewer are dominated by Python's overhead, more by memory
# Relative errors against simulated steps where the library takes the same algorithms, of the 24 questions of
# tests/whatif.py in which 15 to 18 numbers differ at once.
REPLAY_MEAN_ERROR: Final = 0.008
REPLAY_LARGEST_ERROR: Final = 0.13


def varied_step_s(step: SimulatedStep, prices: VariedPrices, num: int) -> Floats:
    """Return the step times in seconds of the first `num` variations after variation 0, which is the simulated one.

    The duration of an op in a variation is its simulated duration multiplied by the ratio of its prices, so the
    slowdown by contention stays the same factor. The step time is the longest path through all ops, in the recorded
    order of waiting.
    """
    rows = np.arange(1, num + 1)
    parts = [rows[first : first + AT_ONCE] for first in range(0, num, AT_ONCE)]
    each = [scaled_s(step, len(part), partial(prices.factor, part)) for part in parts]
    return np.concatenate(each)


def scaled_s(step: SimulatedStep, num_variations: int, factors_of: Callable[[Op], Floats]) -> Floats:
    """Return step times in seconds [num_variations] with the simulated duration of every op multiplied by a factor;
    `factors_of` returns the factors of an op [num_activity_classes, num_variations]."""

    def of_classes(op: Op, classes: Ints) -> Floats:
        of: Floats = factors_of(op)[step.pricing.folding.activity_of(step.pricing.of(op).pattern)[classes]]
        return of

    return StepPath(SimulatedDurations(step.pricing, step.roles, num_variations, of_classes)).step_s()


# ── devices of many speeds ──

# Relative error of a step whose calls overlap with other calls than in the step with classes. Measured: at most 1.5e-4,
# on four-layer models of the seven families.
OTHER_CONTENTION = 5e-4
CALLS_DIFFER: Final = "single calls take their usual time times a factor, and what runs beside them is as usual"


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedError:
    """Largest relative errors of a step that was simulated with classes of nodes: `single` is the error of the speed of
    one device or of one node's network, `step` is the error of the step time."""

    single: float
    step: float

    @property
    def note(self) -> str:
        """Text that describes the simplification and its error."""
        return (
            "nodes with devices of many speeds are simulated in classes, the slowest by itself: single devices are off "
            f"by up to {100 * self.single:.2g} %, the step by up to {100 * self.step:.2g} %"
        )


def speed_error(step: SimulatedStep) -> SpeedError | None:
    """Return the error bounds of a step simulated with classes of nodes; None if no speeds were simplified.

    The step time with every device at its own speed has two bounds: the longest path with all nodes as slow as the
    slowest node of their class, and the longest path with all nodes as fast as the fastest node of their class; the
    bounds hold over all states of the machine. Contention is assumed to be as in the simulated step, except for
    OTHER_CONTENTION.
    """
    fabrics = [state.pricing.fabric for state in step.states]
    single = max(rates.largest_difference for each in fabrics for rates in (each.devices, each.networks))
    if not single:
        return None
    extremes = [_Extremes(step, state.pricing) for state in step.states]
    ends_s = scaled_s(step, 2, lambda op: _widest([each.times_as_long(op) for each in extremes]))
    return SpeedError(single=single, step=OTHER_CONTENTION + float(np.abs(ends_s / step.step_s - 1.0).max()))


def _widest(times: Sequence[Floats]) -> Floats:
    """Return the minimum of the arrays' first columns and the maximum of their second columns [num_activity_classes,
    2]."""
    each = np.stack(times)
    return np.stack([each[..., 0].min(axis=0), each[..., 1].max(axis=0)], axis=1)


class _Extremes:
    """Prices of a step's ops in one state of the machine, with all nodes as fast as the fastest node of their class and
    as slow as the slowest node of their class."""

    def __init__(self, step: SimulatedStep, pricing: Pricing) -> None:
        self.step, self.pricing = step, pricing
        devices, networks = pricing.fabric.devices, pricing.fabric.networks
        self.pricings = [_at_speeds(pricing, devices, mean) for mean in (devices.fastest, devices.slowest)]
        ranks = pricing.folding.representative
        self.network = [(networks.mean / each)[ranks] for each in (networks.fastest, networks.slowest)]

    def times_as_long(self, op: Op) -> Floats:
        """Return the duration of an op relative to the simulated one, at the fastest and at the slowest speeds
        [num_activity_classes, 2]."""
        if not isinstance(op, Compute):
            return self._on_networks(op)
        usual, *others = (_alone_s(each, op) for each in (self.pricing, *self.pricings))
        moves = np.isfinite(usual) & (usual > 0.0)
        return np.stack([np.divide(each, usual, out=np.ones(len(usual)), where=moves) for each in others], axis=1)

    def _on_networks(self, op: Collective | Exchange) -> Floats:
        """Return the same relative durations for a communication op, whose duration any node of a group may determine
        [num_activity_classes, 2]."""
        priced = self.pricing.of(op)
        times = np.ones((len(priced.works), 2))
        if self.step.level(op) == "inter_node":
            group, (fastest, slowest) = self.pricing.folding.activity_of(priced.pattern), self.network
            np.minimum.at(times[:, 0], group, fastest)
            np.maximum.at(times[:, 1], group, slowest)
        return times


def _at_speeds(pricing: Pricing, devices: ClassRates, speed: Floats) -> Pricing:
    """Return the pricing with the relative device speeds `speed` [num_ranks]."""
    return replace(pricing, fabric=replace(pricing.fabric, devices=replace(devices, mean=speed)))


def _alone_s(pricing: Pricing, op: Op) -> Floats:
    """Return the seconds that an op takes without contention [num_activity_classes]."""
    return np.array([work.alone_s for work in pricing.of(op).works])


def step_note(step: SimulatedStep) -> str:
    """Return a text that describes the simplifications in a simulated step; "" if there are none."""
    error = speed_error(step)
    notes = ["" if error is None else error.note, "" if step.call_factors is None else CALLS_DIFFER]
    return "; ".join(filter(None, notes))
