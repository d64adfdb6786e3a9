"""What a slowdown holds: by plan, how many times as long a step takes with each trouble, each lagging device and each
lagging link."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from simfrontier.base.arrays import Ints
from simfrontier.core.engine import Fidelity


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthyStep:
    """A plan's step with nothing wrong: its seconds, its sequences, and what decides what trouble costs: the share of
    it in which kernels run, the share in which the critical rank waits for messages between nodes and no kernel runs,
    and the share of all bytes sent that cross nodes."""

    step_s: float
    samples: int
    kernel_share: float
    between_nodes_share: float
    crossing_share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubledStep:
    """A plan's step in one case: its seconds, over those of the healthy step (`slowdown`), and what of it takes longer,
    as a sentence without a full stop. Where the step cannot be there are no numbers, and the sentence says why.
    `speed_error`: by what share it may be off as devices are simulated in classes of speed."""

    step_s: float | None
    slowdown: float | None
    sentence: str
    speed_error: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaggingDevices:
    """Slowdown by which device lags, one at a time. Devices that are alike have one class.

    class_of   [num_devices of the nodes] class of each device, -1 where it has no rank
    slowdown   [num_classes] nan for classes that are not simulated, as there are too many
    """

    class_of: Ints
    slowdown: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LaggingLinks:
    """Slowdown where one link of a class lags, both ways: the machine's class of links, one of them by name, how many
    links are alike, and the slowdown with any one of them (nan: not simulated, as there are too many classes)."""

    link_class: str
    example: str
    num_links: int
    slowdown: float = math.nan


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowedPlan:
    """What trouble costs one plan: `cases` by label; `links`: of all links that it loads, the machine's classes in
    order. Where the plan does not fit there is nothing but why (`misfit`)."""

    plan: str
    misfit: str = ""
    healthy: HealthyStep | None = None
    cases: Mapping[str, TroubledStep]
    devices: LaggingDevices | None = None
    links: tuple[LaggingLinks, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowdown:
    """What trouble costs each plan at one size. `cases`: their labels; `device_factor` and `link_factor`: what a
    lagging device or link has left of its rate. `sentences`: which plan suffers least in each case, and why;
    `verdict`: over all cases."""

    devices: int
    devices_per_node: int
    fidelity: Fidelity
    device_factor: float
    link_factor: float
    cases: tuple[str, ...]
    plans: tuple[SlowedPlan, ...]
    sentences: tuple[str, ...]
    verdict: str
