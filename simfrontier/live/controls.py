"""What can be moved on the live page: settings of a scenario with the values that each may take."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Literal

from simfrontier.collectives import environments_of
from simfrontier.records import dataclass
from simfrontier.report import quantity
from simfrontier.scenario import Scenario
from simfrontier.stack import stacks_of

DEVICES: Final = "run.devices"
SLOW: Final = "perturbation.slow"
Kind = Literal["slider", "switch", "choice"]
_NIC_SHARES: Final = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_FACTORS: Final = (0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 4.0)
_COUNTS: Final = (1, 2, 4, 8)
_SLOW: Final = (1.0, 0.95, 0.9, 0.8, 0.7, 0.5, 0.3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A setting that can be moved. `values`: what it may be, in the order of the slider, with `words` for each; `at`:
    the place of the scenario's own value."""

    key: str
    label: str
    kind: Kind
    values: tuple[Any, ...]
    words: tuple[str, ...]
    at: int

    def place(self, places: Mapping[str, int]) -> int:
        """Where it stands among these."""
        return places.get(self.key, self.at)


def controls_of(scenario: Scenario) -> tuple[Control, ...]:
    """The controls of a scenario, in the order of the page; those that would change nothing are left out."""
    return tuple(control for control in _all(scenario) if len(control.values) > 1)


def _all(scenario: Scenario) -> Iterator[Control]:
    file, device = scenario.file, scenario.machine.device_word
    sizes = tuple(sorted(file.run.devices))
    yield _control(DEVICES, f"{device}s", "slider", sizes, [f"{size:,}" for size in sizes], max(sizes))
    if file.training.batch is None:
        for key, label in (("micro_batch", "micro-batch per " + device), ("grad_accum", "accumulation steps")):
            own = getattr(file.training, key)
            values = tuple(sorted({*_COUNTS, own}))
            yield _control(f"training.{key}", label, "slider", values, [str(value) for value in values], own)
    levels = ("full", "selective", "none")
    yield _control(
        "model.checkpointing", "activation checkpointing", "choice", levels, levels, file.model.checkpointing
    )
    yield _switch("engine.overlap", "communication beside computation", file.engine.overlap)
    library, given = scenario.library.name, file.library.name
    found = tuple(
        dict.fromkeys([given or library, scenario.machine.library, *environments_of(scenario.machine.library)])
    )
    yield _control("library.name", "collective library, as a job finds it", "choice", found, found, given or library)
    known = {each.key: each.value for each in scenario.library.provenance()}
    share, hop = known.get("shares.nic"), known.get("ring.hop_between_nodes_s")
    if share is not None:
        shares = _with_own(_NIC_SHARES, float(share))
        words = [f"{100 * value:.3g} %" for value in shares]
        yield _control(
            "library.overrides.shares.nic", "share of the NICs that collectives reach", "slider", shares, words, share
        )
    if hop is not None:
        hops = tuple(factor * float(hop) for factor in _FACTORS)
        words = [quantity(value, "s") for value in hops]
        yield _control(
            "library.overrides.ring.hop_between_nodes_s", "latency of a hop between nodes", "slider", hops, words, hop
        )
    families = tuple(dict.fromkeys(plan.family for plan in scenario.plans.values()))
    others = [name for family in families for name in stacks_of(family)]
    stacks = tuple(dict.fromkeys([file.stack or "", *others]))
    words = [name or "none: kernels as fused as the model" for name in stacks]
    yield _control("stack", "software stack", "choice", stacks, words, file.stack or "")
    words = ["none", *(f"at {100 * value:g} % speed" for value in _SLOW[1:])]
    yield _control(SLOW, f"a slow {device} (the first)", "slider", _SLOW, words, 1.0)


def _control(key: str, label: str, kind: Kind, values: Sequence[Any], words: Sequence[str], own: Any) -> Control:
    return Control(
        key=key, label=label, kind=kind, values=tuple(values), words=tuple(words), at=list(values).index(own)
    )


def _switch(key: str, label: str, own: bool) -> Control:
    return Control(key=key, label=label, kind="switch", values=(False, True), words=("off", "on"), at=int(own))


def _with_own(values: tuple[float, ...], own: float) -> tuple[float, ...]:
    """The values with the scenario's own in its place."""
    if own in values:
        return values
    place = bisect_left(values, own)
    return (*values[:place], own, *values[place:])
