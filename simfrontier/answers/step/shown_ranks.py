"""Selection of a step's rank classes for a trace file, and the pieces in which they are shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from simfrontier.core.engine import SimulatedStep, Walk, spans_of
from simfrontier.core.trace import Process, Span, ranges_text

MOST_SPANS: Final = 50_000  # of a file, which has some 300 bytes for each, arrows and counters included
LONGEST_RANKS: Final = 40  # letters of a name; all members are in the file


@dataclass(frozen=True, kw_only=True, eq=False)
class ShownRanks:
    """The rank classes of a file in the order of its processes: the critical one first, which is always there op by op,
    the others by their lowest rank; `by_call`, those calls of them are one span each that were simulated as a whole."""

    step: SimulatedStep
    walks: tuple[Walk, ...]
    most_spans: int

    @property
    def notes(self) -> dict[str, str]:
        """Notes on what the file leaves out, if anything."""
        folding, out = self.step.pricing.folding, {}
        if any(walk.by_call for walk in self.walks):
            out["by_call"] = "all processes but the first show the calls of their stage as one span each"
        num_left = folding.num_rank_classes - len(self.walks)
        if num_left:
            there = sum(len(walk.members) for walk in self.walks)
            all_ranks = len(folding.rank_class)
            out["left_out"] = (
                f"{num_left:,} of {folding.num_rank_classes:,} rank classes ({all_ranks - there:,} of {all_ranks:,} "
                f"ranks): with them, op by op, these are more than {self.most_spans:,} spans"
            )
        return out

    def processes(self) -> Iterator[Process]:
        """The process of every shown rank class; those of one role that are shown alike share their spans."""
        known: dict[tuple[int, bool], tuple[Span, ...]] = {}
        for walk in self.walks:
            pieces = walk.role, walk.by_call
            if pieces not in known:
                known[pieces] = spans_of(walk)
            yield Process(
                name=_name(walk),
                members=walk.members,
                spans=known[pieces],
                ready_s=walk.ready_s,
                start_s=walk.start_s,
                end_s=walk.end_s,
            )


def shown_ranks(step: SimulatedStep, most_spans: int = MOST_SPANS) -> ShownRanks:
    """The critical rank class, those that it exchanges with along its pipeline, and then others from the lowest rank
    on, with their pipelines, while all have up to `most_spans` spans. Where one pipeline has more, it is shown alone,
    by call; where it has more even so, as many of its stages as fit."""
    own, *others = _pipelines(step)
    ops = [Walk(step=step, cls=cls).num_ops for cls in own]
    by_call = sum(ops) > most_spans and any(
        role.segmented.program.num_ops < role.segmented.num_ops for role in step.roles
    )
    left, shown = most_spans - ops[0], [Walk(step=step, cls=step.critical)]
    for together in [*((cls,) for cls in own[1:]), *(() if by_call else others)]:
        walks = [Walk(step=step, cls=cls, by_call=by_call) for cls in together]
        left -= sum(walk.num_ops for walk in walks)
        if left < 0:
            break
        shown += walks
    ordered = (shown[0], *sorted(shown[1:], key=lambda walk: walk.cls))
    return ShownRanks(step=step, walks=ordered, most_spans=most_spans)


def _name(walk: Walk) -> str:
    """A process for a reader: its place among the roles, and its ranks."""
    at, members, ranks = walk.at, walk.members, ranges_text(walk.members)
    if len(ranks) > LONGEST_RANKS:
        ranks = f"{members[0]} and others"
    word = "ranks" if len(members) > 1 else "rank"
    place = "" if at is None else "{} {}: ".format(*at)
    return f"{place}{word} {ranks} ({len(members):,} of {walk.step.schedule.mesh.num_ranks:,})"


def _pipelines(step: SimulatedStep) -> list[tuple[int, ...]]:
    """Every rank class once, with those of the other roles that its lowest rank has all other coordinates in common
    with: the critical one first, the others from the lowest rank on."""
    folding, axis, mesh = step.pricing.folding, step.pricing.role_assignment.axis, step.schedule.mesh
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
