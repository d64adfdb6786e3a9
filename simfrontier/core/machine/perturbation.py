"""Degraded components of a machine, permanently or for a limited time: the table `perturbation` of a scenario, and an
input of the fabric model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Final, get_args

from annotated_types import Ge, Le, MaxLen

from simfrontier.base.errors import InputError
from simfrontier.base.io import Line
from simfrontier.base.limits import COUNT
from simfrontier.core.machine.spread import Differing, Spread

Number = Annotated[int, Ge(0), Le(COUNT.most)]
Factor = Annotated[float, Ge(0), Le(1)]
Seconds = Annotated[float, Ge(0), Le(1e6)]  # eleven days: longer than a step
Moment = tuple[int, float]  # a step, and seconds since it began

SLOWEST: Final = 1e-9  # least factor of a component that is not dead; below, it practically stands still
NEVER: Final[Moment] = (COUNT.most + 1, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trouble:
    """Base of degraded components: a component runs at a fraction `factor` of its rate (0: it is dead) from one moment
    to another.

    Moments are given as a step and seconds since that step began. Without any times, the component is degraded
    permanently. With `until_s` alone, the degradation ends in the step in which it begins; with `until_step` alone,
    when that step begins. If `until_s` lies after the end of its step, the degradation ends with the step.
    """

    words: ClassVar[str]  # name of the component, a format with the fields of the class
    factor: Factor
    from_step: Number = 0
    from_s: Seconds = 0.0
    until_step: Number | None = None
    until_s: Seconds | None = None

    def __post_init__(self) -> None:
        if not 0.0 <= self.factor <= 1.0:
            raise InputError(f"{self.thing}: got factor {self.factor}; allowed: 0 to 1", key=("perturbation",))
        if 0.0 < self.factor < SLOWEST:
            text = f"{self.thing}: got factor {self.factor}; allowed: 0 (dead), or {SLOWEST:g} to 1"
            raise InputError(text, key=("perturbation",))

    @property
    def begin(self) -> Moment:
        """Moment at which the degradation begins."""
        return self.from_step, self.from_s

    @property
    def end(self) -> Moment:
        """Moment at which the degradation ends."""
        if self.until_step is None and self.until_s is None:
            return NEVER
        return self.from_step if self.until_step is None else self.until_step, self.until_s or 0.0

    @property
    def is_timed(self) -> bool:
        """True if the component is healthy at some moment."""
        return self.begin > (0, 0.0) or self.end < NEVER

    @property
    def thing(self) -> str:
        """Name of the component, for messages."""
        return self.words.format(self)

    @property
    def rate_words(self) -> str:
        """Name of the component and its remaining rate, for messages."""
        return f"{self.thing} dead" if self.factor == 0.0 else f"{self.thing} at {100 * self.factor:g} %"


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowDevice(Trouble):
    """A device that computes at a fraction of its speed; if it is dead, its memory moves nothing either."""

    words: ClassVar[str] = "device {0.device}"
    device: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowPackage(Trouble):
    """A package whose devices all compute at a fraction of their speed; packages are numbered across all nodes."""

    words: ClassVar[str] = "package {0.package}"
    package: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowNode(Trouble):
    """A node whose devices all compute at a fraction of their speed; if the node is dead, all its links are dead
    too."""

    words: ClassVar[str] = "node {0.node}"
    node: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowMemory(Trouble):
    """A device whose memory has only a fraction of its bandwidth."""

    words: ClassVar[str] = "memory of device {0.device}"
    device: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedLink(Trouble):
    """A link of a node that has only a fraction of its capacity; link names are those that `simfrontier show --links`
    prints."""

    words: ClassVar[str] = "{0.link} of node {0.node}"
    node: Number
    link: Line


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedNic(Trouble):
    """A NIC of a node that sends and receives at a fraction of its rate."""

    words: ClassVar[str] = "NIC {0.nic} of node {0.node}"
    node: Number
    nic: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class DegradedPool(Trouble):
    """The global links from one dragonfly group to another, with only a fraction of their capacity."""

    words: ClassVar[str] = "global links {0.source}>{0.target}"
    source: Number
    target: Number


@dataclass(frozen=True, slots=True, kw_only=True)
class BusyPools(Trouble):
    """All global links (dragonfly) or leaf uplinks (fat tree), of whose capacity other jobs leave only a fraction."""

    words: ClassVar[str] = "global links beside other jobs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Perturbation:
    """All degraded or dead components (devices, memories, links, global pools), permanently or for a time, and the
    variation between devices, between nodes' network rates, or between calls of kernels or collectives (`spread`).
    Everything else is healthy."""

    slow: tuple[SlowDevice, ...] = ()
    packages: tuple[SlowPackage, ...] = ()
    nodes: tuple[SlowNode, ...] = ()
    memories: tuple[SlowMemory, ...] = ()
    links: tuple[DegradedLink, ...] = ()
    nics: tuple[DegradedNic, ...] = ()
    pools: tuple[DegradedPool, ...] = ()
    background: tuple[BusyPools, ...] = ()
    spread: Annotated[tuple[Spread, ...], MaxLen(len(get_args(Differing)))] = ()

    def __bool__(self) -> bool:
        return any(getattr(self, each.name) for each in fields(self))

    def differing(self, thing: Differing) -> Spread | None:
        """Return the spread of the given kind of things (devices, networks, kernel calls, collective calls); None if
        they do not vary."""
        return next((each for each in map(Spread.resolved, self.spread) if each.thing == thing), None)

    @property
    def calls_differ(self) -> bool:
        """True if repeated calls of one kernel, or of one collective, take different times."""
        return any(spread.resolved().is_of_calls for spread in self.spread)

    @property
    def is_timed(self) -> bool:
        """True if any component becomes degraded or healthy at some moment."""
        return any(trouble.is_timed for _, trouble in self.troubles())

    def troubles(self) -> Iterator[tuple[str, Trouble]]:
        """Yield all degraded components of any time, each with the key of its list."""
        for key in LISTS:
            for trouble in getattr(self, key):
                yield key, trouble

    def _with(self, made: Callable[[Trouble], Trouble | None]) -> Perturbation:
        """Return a copy of this perturbation with `made` applied to every degraded component; components for which
        `made` returns None are dropped."""
        every: Any = {key: tuple(filter(None, map(made, getattr(self, key)))) for key in LISTS}
        return replace(self, **every)

    @property
    def without_dead(self) -> Perturbation:
        """Copy of this perturbation in which dead components are healthy."""
        return self._with(lambda each: each if each.factor > 0.0 else None)

    @property
    def lasting(self) -> Perturbation:
        """Copy of this perturbation with only its permanently degraded components, without dead ones."""
        return self._with(lambda each: None if each.is_timed else each).without_dead

    @property
    def all_at_once(self) -> Perturbation:
        """Copy of this perturbation in which all degraded components are degraded permanently."""
        return self._with(_always)

    def at(self, moment: Moment) -> Perturbation:
        """Return the perturbation at one moment: the components degraded at that moment, as permanently degraded
        ones."""
        if not self.is_timed:
            return self
        return self._with(lambda each: _always(each) if each.begin <= moment < each.end else None)

    def states(self, step: int) -> tuple[tuple[float, Perturbation], ...]:
        """Return the successive states of the machine in a step: pairs of the seconds since the step began (0 for the
        first state) and the perturbation from then on."""
        moments = {moment for _, each in self.troubles() for moment in (each.begin, each.end) if moment[0] == step}
        states = [(seconds, self.at((step, seconds))) for seconds in sorted({0.0, *(s for _, s in moments)})]
        return (states[0], *(after for before, after in pairwise(states) if before[1] != after[1]))

    def changed_from(self, before: Perturbation) -> str:
        """Return, in words, the components degraded since the state `before` and those that are healthy again; both
        perturbations are states without times."""
        mine, others = ({(key, each.thing): each for key, each in one.troubles()} for one in (self, before))
        worse = [each.rate_words for place, each in mine.items() if others.get(place) != each]
        return ", ".join([*worse, *(f"{each.thing} well again" for place, each in others.items() if place not in mine)])

    @property
    def last_step(self) -> int:
        """Last step in which a degradation begins or ends."""
        moments = [moment for _, each in self.troubles() for moment in (each.begin, each.end) if moment < NEVER]
        return max(moments, default=(0, 0.0))[0]

    def refuse_wrong(self) -> None:
        """Raise InputError if a degradation ends before it begins, two degradations of one component overlap in time,
        or a spread has keys that exclude each other."""
        for number, spread in enumerate(self.spread):
            try:
                spread.refuse_wrong()
            except InputError as error:
                raise error.within(key=("perturbation", "spread", number)) from None
        things = [spread.resolved().thing for spread in self.spread]
        if len(set(things)) < len(things):
            raise InputError(f"got {things[0]} twice, allowed: every thing once", key=("perturbation", "spread"))
        for key in LISTS:
            listed: tuple[Trouble, ...] = getattr(self, key)
            for number, each in enumerate(listed):
                if each.end <= each.begin:
                    ends, begins = (f"{seconds:g} s of step {step}" for step, seconds in (each.end, each.begin))
                    text = f"{each.thing} ends at {ends}, allowed: after it begins at {begins}"
                    raise InputError(text, key=("perturbation", key, number))
            in_order = sorted(listed, key=lambda each: (each.thing, each.begin))
            for one, other in pairwise(in_order):
                if one.thing == other.thing and other.begin < one.end:
                    text = f"got {one.thing} twice, allowed: every {_WORDS[key]} once at a time"
                    raise InputError(text, key=("perturbation", key))


LISTS: Final = tuple(each.name for each in fields(Perturbation) if each.name != "spread")
HEALTHY: Final = Perturbation()
_WORDS: Final = {
    "slow": "device",
    "packages": "package",
    "nodes": "node",
    "memories": "memory",
    "links": "link",
    "nics": "NIC",
    "pools": "pool",
    "background": "moment",
}


def _always(trouble: Trouble) -> Trouble:
    return replace(trouble, from_step=0, from_s=0.0, until_step=None, until_s=None)
