"""Which rank classes of a step a trace file shows, and in what pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from simfrontier.analysis.stages import last_class
from simfrontier.records import dataclass
from simfrontier.simulation import SimulatedStep
from simfrontier.trace import Process, Span

MOST_SPANS: Final = 50_000  # of a file: 13 MB, which viewers open in a second or two


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownRank:
    """A rank class of a file, op by op or `by_call`: there the calls that were simulated as a whole are one span each.
    `by_call` is the same where all ops were simulated one by one."""

    step: SimulatedStep
    cls: int
    by_call: bool

    @property
    def role(self) -> int:
        return int(self.step.cluster.role_of[self.cls])

    @property
    def num_spans(self) -> int:
        segmented = self.step.roles[self.role].segmented
        return segmented.program.num_ops if self.by_call else segmented.num_ops


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownRanks:
    """The rank classes of a file in the order of its processes: the critical one first, which is always there op by op,
    the others by their lowest rank."""

    step: SimulatedStep
    ranks: tuple[ShownRank, ...]

    @property
    def notes(self) -> dict[str, str]:
        """What the file leaves out, if anything."""
        folding, out = self.step.cluster.folding, {}
        if any(rank.by_call for rank in self.ranks):
            out["by_call"] = "all processes but the first show the calls of their stage as one span each"
        num_left = folding.num_rank_classes - len(self.ranks)
        if num_left:
            there = sum(int(folding.rank_count[rank.cls]) for rank in self.ranks)
            all_ranks = len(folding.rank_class)
            out["left_out"] = (
                f"{num_left:,} of {folding.num_rank_classes:,} rank classes ({all_ranks - there:,} of {all_ranks:,} "
                f"ranks); a file shows {MOST_SPANS:,} spans, or the critical rank's if these are more"
            )
        return out

    def processes(self) -> Iterator[Process]:
        """The process of every shown rank; those of one role that are shown alike share their spans."""
        known: dict[tuple[int, bool], tuple[Span, ...]] = {}
        folding = self.step.cluster.folding
        for rank in self.ranks:
            pieces = rank.role, rank.by_call
            if pieces not in known:
                known[pieces] = self.step.call_spans(rank.cls) if rank.by_call else self.step.spans(rank.cls)
            if rank.by_call:
                role_timeline = self.step.roles[rank.role]
                times, row = role_timeline.timeline, role_timeline.classes.index(rank.cls)
            else:
                view = self.step.view(rank.cls)
                times, row = view.timeline, view.classes.index(rank.cls)
            yield Process(
                name=self.step.rank_name(rank.cls),
                members=tuple(np.flatnonzero(folding.rank_class == rank.cls).tolist()),
                spans=known[pieces],
                ready_s=times.ready[row],
                start_s=times.start[row],
                end_s=times.end[row],
            )


def shown_ranks(step: SimulatedStep, most_spans: int = MOST_SPANS) -> ShownRanks:
    """As many rank classes as make up to `most_spans` spans: the critical one, then of every other role the one that
    ends last, then the others from the lowest rank on. Op by op, if those of all roles fit in, or else by call."""
    roles = [role for role in range(len(step.roles)) if step.critical not in step.roles[role].classes]
    first = [step.critical, *(last_class(step, step.roles[role]) for role in roles)]
    by_call = sum(ShownRank(step=step, cls=cls, by_call=False).num_spans for cls in first) > most_spans
    left = most_spans
    shown = []
    for cls in dict.fromkeys((*first, *range(step.cluster.folding.num_rank_classes))):
        rank = ShownRank(step=step, cls=cls, by_call=by_call and cls != step.critical)
        left -= rank.num_spans
        if left < 0 and cls != step.critical:
            break
        shown.append(rank)
    return ShownRanks(step=step, ranks=tuple(sorted(shown, key=lambda rank: (rank.cls != step.critical, rank.cls))))
