"""Results of an explanation: breakdown of the step time, which ranks waited for which, which changes would help, and
how plans differ.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from math import fsum
from typing import TYPE_CHECKING

import numpy as np

from simfrontier.answers.explain.changes import Kind
from simfrontier.answers.explain.published import AgainstPublished, Difference
from simfrontier.answers.step import CriticalPath, PartDifference, TimeSpent, WhoWaited
from simfrontier.base.arrays import Ints
from simfrontier.base.errors import SimfrontierError
from simfrontier.base.units import counted, listed, written
from simfrontier.core.engine import Fidelity
from simfrontier.core.machine import Machine
from simfrontier.core.trace import ranges_text

if TYPE_CHECKING:
    import pandas as pd

MOST_PAIRS = 12  # that are listed
MOST_PLACES = 3  # of ranks that are named by node
LITTLE = 1e-3  # of a step: waits shorter than this are only named
LEAST = 0.1  # of the longest wait for a class: who waits less for it is not in the sentence
ALIKE = 5e-3  # kernels that differ by less take as long


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownWait:
    """Ranks that waited for other ranks to arrive, both described in words: number of waiting ranks, seconds per
    waiting rank, the part of them in which it ran no kernel, and the number and names of the collective calls or
    exchanges.
    """

    waiting: str
    num_waiting: int
    late: str
    seconds: float
    exposed_s: float
    calls: int
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Waits:
    """The pairs of ranks with the longest waits (summed over ranks), the number of further pairs, the longest total
    wait of any rank, and a sentence without a full stop.
    """

    pairs: tuple[ShownWait, ...]
    left_out: int
    longest_s: float
    sentence: str


def waits_of(found: WhoWaited, device_of: Ints, machine: Machine) -> Waits:
    """Return the waits of a step on a machine for display. `device_of`: device of each rank."""

    def named(ranks: Ints) -> str:
        return places(np.sort(device_of[ranks]), machine.devices_per_node, machine.device_word)

    shown = [
        ShownWait(
            waiting=named(found.ranks(pair.waiting)),
            num_waiting=len(found.ranks(pair.waiting)),
            late=named(found.ranks(pair.late)),
            seconds=pair.seconds,
            exposed_s=pair.exposed_s,
            calls=pair.calls,
            names=pair.names,
        )
        for pair in found.pairs[:MOST_PAIRS]
    ]
    longest = float(found.waited_s.max(initial=0.0))
    if not shown:
        sentence = f"All {machine.device_word}s arrive at every collective at once: no rank waits"
    elif longest < LITTLE * found.step_s:
        sentence = f"No rank waits longer than {_seconds(longest)} of the step for others"
    else:
        sentence = _sentence(found, named)
    return Waits(pairs=tuple(shown), left_out=len(found.pairs) - len(shown), longest_s=longest, sentence=sentence)


def places(devices: Ints, per_node: int, word: str) -> str:
    """Return devices in words, in ascending order: GCD 3 of node 0; GCDs 0-2,4-7 of node 0 and all of nodes 1-47."""
    node, position = np.divmod(devices, per_node)
    nodes, first, count = np.unique(node, return_index=True, return_counts=True)
    parts: dict[tuple[int, ...], list[int]] = {}
    for number, at, size in zip(nodes.tolist(), first.tolist(), count.tolist(), strict=True):
        parts.setdefault(tuple(position[at : at + size].tolist()), []).append(number)
    if len(parts) > MOST_PLACES:
        return f"{len(devices):,} {word}s of {len(nodes):,} node{'s' if len(nodes) > 1 else ''}"
    out = []
    for own, where in parts.items():
        text = ranges_text(where)
        on = f"node{'s' if len(where) > 1 else ''} {text}" if len(text) <= 24 else f"{len(where):,} nodes"
        who = "all" if len(own) == per_node else f"{word}{'s' if len(own) > 1 else ''} {ranges_text(own)}"
        out.append(f"{who} of {on}")
    return listed(out)


def _sentence(found: WhoWaited, named: Callable[[Ints], str]) -> str:
    """Return a sentence on the rank class that caused the longest total wait of others; `named`: describes ranks in
    words.
    """
    counts = np.bincount(found.rank_class)
    late = {pair.late for pair in found.pairs}
    total = {cls: fsum(counts[p.waiting] * p.seconds for p in found.pairs if p.late == cls) for cls in late}
    most = max(sorted(total), key=lambda cls: total[cls])
    pairs = [pair for pair in found.pairs if pair.late == most]
    least = LEAST * max(pair.seconds for pair in pairs)
    pairs = [pair for pair in pairs if pair.seconds >= least]
    ends = [_seconds(end([pair.seconds for pair in pairs])) for end in (min, max)]
    bare = [_seconds(end([pair.exposed_s for pair in pairs])) for end in (min, max)]
    waiting = np.concatenate([found.ranks(pair.waiting) for pair in pairs])
    who, whom = named(waiting), named(found.ranks(most))
    return (
        f"{who} waited {_range(ends)} of the step for {whom} to arrive, {_range(bare)} of it with no kernel running"
        f"{_reason(found, most, pairs[0].waiting, len(found.ranks(most)))}"
    )


def _reason(found: WhoWaited, late: int, waiting: int, num_late: int) -> str:
    """Return, in words, the ratio by which the kernels of the late ranks take longer, if both classes execute the same
    role.
    """
    if found.role_of[late] != found.role_of[waiting] or not found.kernel_s[waiting]:
        return ""
    ratio = found.kernel_s[late] / found.kernel_s[waiting]
    if abs(ratio - 1.0) < ALIKE:
        return ""
    return f" ({'its' if num_late == 1 else 'their'} kernels take {ratio:.3g} × as long)"


def _range(ends: list[str]) -> str:
    return ends[0] if ends[0] == ends[1] else f"{ends[0]} to {ends[1]}"


def _seconds(value: float) -> str:
    return written(float(f"{value:.2g}"), "s")


class DoesNotFitError(SimfrontierError):
    """Raised when a plan to be explained does not fit into memory; `what` states the memory that it needs."""

    def __init__(self, what: str, *, where: str) -> None:
        super().__init__(f"{where}: {what}; nothing to explain")
        self.what = what


@dataclass(frozen=True, slots=True, kw_only=True)
class TriedChange:
    """A simulated change of a plan.

    `settings`: arguments for `--set`. `step_s`: step time in seconds with the change; `saved_s`: reduction of the step
    time (negative: it grows), `share`: this reduction relative to the step without the change. `peak_bytes`: memory on
    the fullest rank, and whether that `fits`. `note`: description of the change, or what else it costs.
    """

    label: str
    kind: Kind
    settings: tuple[str, ...]
    step_s: float
    saved_s: float
    share: float
    peak_bytes: int
    fits: bool
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanComparison:
    """Another plan at the same size: the breakdown of its step time, the parts of the first plan's step minus its own
    parts (seconds that sum to the difference of the steps), and a sentence. `samples`: sequences per step of the other
    plan.
    """

    plan: str
    time: TimeSpent
    differences: tuple[PartDifference, ...]
    sentence: str
    samples: int

    @property
    def step_s(self) -> float:
        return self.time.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedPlan:
    """A plan of the scenario with the breakdown of its step time and its comparison with the next best plan (None: the
    last).
    """

    plan: str
    time: TimeSpent
    samples: int
    next: PlanComparison | None = None

    @property
    def samples_per_s(self) -> float:
        return self.samples / self.time.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Explanation of a plan's step time: its breakdown (`time`), the critical path (`path`), simulated `changes` (the
    largest saving first), and the comparison with another plan: the requested one, or the best of the others (None:
    there is no other plan).

    `waits`: which ranks waited for which others to arrive at a collective call. `note`: simplifications of the step, ""
    if there are none.

    `ranking`: if no plan was requested, all plans that fit, by sequences per second, each compared with the next best;
    `left_out`: names of plans that were not compared, with reasons. `samples`: sequences per step. `given`: settings
    with which the scenario was loaded; `kept`: settings that express the result of the plan's search and are part of
    all changes (to repeat a change, give `kept` and then the settings of the change). `published`: the comparison with
    a published run, if one was requested.
    """

    title: str
    scenario: str
    plan: str
    devices: int
    fidelity: Fidelity
    machine: str
    device_word: str
    step_s: float
    samples: int
    time: TimeSpent
    path: CriticalPath
    waits: Waits
    note: str
    changes: tuple[TriedChange, ...]
    against: PlanComparison | None
    ranking: tuple[RankedPlan, ...]
    left_out: tuple[tuple[str, str], ...]
    given: tuple[str, ...]
    kept: tuple[str, ...]
    published: AgainstPublished | None = None

    def __repr__(self) -> str:
        step = f"{self.plan} on {counted(self.devices, self.device_word)}, {written(self.step_s, 's')} a step"
        return f"Explanation of {step}; see frame(), changes_frame(), differences_frame() and published_frame()"

    def frame(self) -> pd.DataFrame:
        """Return the parts of the step time, the largest first. Columns: category (`spent`), kind, axes, level,
        seconds, share of the step, number of ops (`calls`), and a description (`words`).
        """
        import pandas as pd

        rows = [
            {
                **asdict(part),
                "axes": "+".join(part.axes),
                "share": part.seconds / self.step_s,
                "words": part.words,
            }
            for part in self.time.parts
        ]
        columns = ["spent", "kind", "axes", "level", "seconds", "share", "calls", "words"]
        return pd.DataFrame(rows, columns=columns)

    def changes_frame(self) -> pd.DataFrame:
        """Return the simulated changes, the largest saving first; `settings` as arguments of `--set`, separated by
        spaces.
        """
        import pandas as pd

        columns = [field.name for field in fields(TriedChange)]
        rows = [{**asdict(change), "settings": " ".join(change.settings)} for change in self.changes]
        return pd.DataFrame(rows, columns=columns)

    def differences_frame(self) -> pd.DataFrame:
        """Return the parts of this plan's step time minus those of the other plan, the largest difference first; empty
        if there is no other plan.
        """
        import pandas as pd

        columns = ["spent", "kind", "axes", "level", "seconds", "a_s", "b_s", "a_calls", "b_calls"]
        differences = () if self.against is None else self.against.differences
        rows = [{**asdict(each), "seconds": each.seconds, "axes": "+".join(each.axes)} for each in differences]
        return pd.DataFrame(rows, columns=columns)

    def published_frame(self) -> pd.DataFrame:
        """Return the differences from the published run, the largest first, with their factors, which multiply to
        `published.predicted_ratio`; empty if there is no such run.
        """
        import pandas as pd

        columns = [field.name for field in fields(Difference)]
        differences = () if self.published is None else self.published.differences
        return pd.DataFrame([asdict(each) for each in differences], columns=columns)
