"""Which rank classes of a step a trace file shows, and in what pieces."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from simfrontier.records import dataclass
from simfrontier.simulation import SimulatedStep
from simfrontier.trace import Process, Span, ranges_text

MOST_SPANS: Final = 50_000  # of a file, which has some 300 bytes for each, arrows and counters included
LONGEST_RANKS: Final = 40  # letters of a name; all members are in the file


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownRank:
    """A rank class of a file, op by op or `by_call`: there the calls that were simulated as a whole are one span
    each."""

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
    most_spans: int

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
                f"ranks): with them, op by op, these are more than {self.most_spans:,} spans"
            )
        return out

    def processes(self) -> Iterator[Process]:
        """The process of every shown rank; those of one role that are shown alike share their spans."""
        known: dict[tuple[int, bool], tuple[Span, ...]] = {}
        folding = self.step.cluster.folding
        for rank in self.ranks:
            pieces, members = (rank.role, rank.by_call), tuple(np.flatnonzero(folding.rank_class == rank.cls).tolist())
            if pieces not in known:
                known[pieces] = self.step.call_spans(rank.cls) if rank.by_call else self.step.spans(rank.cls)
            if rank.by_call:
                role_timeline = self.step.roles[rank.role]
                times, row = role_timeline.timeline, role_timeline.classes.index(rank.cls)
            else:
                view = self.step.view(rank.cls)
                times, row = view.timeline, view.classes.index(rank.cls)
            yield Process(
                name=_name(self.step, rank.role, members),
                members=members,
                spans=known[pieces],
                ready_s=times.ready[row],
                start_s=times.start[row],
                end_s=times.end[row],
            )


def shown_ranks(step: SimulatedStep, most_spans: int = MOST_SPANS) -> ShownRanks:
    """The critical rank class, those that it exchanges with along its pipeline, and then others from the lowest rank
    on, with their pipelines, while all have up to `most_spans` spans. Where one pipeline has more, it is shown alone,
    by call; where it has more even so, as many of its stages as fit."""
    own, *others = _pipelines(step)
    ops = [ShownRank(step=step, cls=cls, by_call=False).num_spans for cls in own]
    by_call = sum(ops) > most_spans and any(
        role.segmented.program.num_ops < role.segmented.num_ops for role in step.roles
    )
    left, shown = most_spans - ops[0], [ShownRank(step=step, cls=step.critical, by_call=False)]
    for together in [*((cls,) for cls in own[1:]), *(() if by_call else others)]:
        ranks = [ShownRank(step=step, cls=cls, by_call=by_call) for cls in together]
        left -= sum(rank.num_spans for rank in ranks)
        if left < 0:
            break
        shown += ranks
    ordered = (shown[0], *sorted(shown[1:], key=lambda rank: rank.cls))
    return ShownRanks(step=step, ranks=ordered, most_spans=most_spans)


def _name(step: SimulatedStep, role: int, members: tuple[int, ...]) -> str:
    """A process for a reader: its place among the roles, and its ranks."""
    at, ranks = step.schedule.roles[role].at, ranges_text(members)
    if len(ranks) > LONGEST_RANKS:
        ranks = f"{members[0]} and others"
    word = "ranks" if len(members) > 1 else "rank"
    place = "" if at is None else "{} {}: ".format(*at)
    return f"{place}{word} {ranks} ({len(members):,} of {step.schedule.mesh.num_ranks:,})"


def _pipelines(step: SimulatedStep) -> list[tuple[int, ...]]:
    """Every rank class once, with those of the other roles that its lowest rank has all other coordinates in common
    with: the critical one first, the others from the lowest rank on."""
    folding, axis, mesh = step.cluster.folding, step.cluster.role_assignment.axis, step.schedule.mesh
    rows = np.arange(mesh.num_ranks)[:, None] if axis is None else mesh.groups((axis,))
    row_of = np.empty(mesh.num_ranks, np.int64)
    row_of[rows] = np.arange(len(rows))[:, None]
    taken: set[int] = set()
    out = []
    for cls in (step.critical, *range(folding.num_rank_classes)):
        if cls not in taken:
            mine = folding.rank_class[rows[row_of[folding.representative[cls]]]].tolist()
            out.append(tuple(each for each in dict.fromkeys((cls, *mine)) if each not in taken))
            taken.update(out[-1])
    return out
