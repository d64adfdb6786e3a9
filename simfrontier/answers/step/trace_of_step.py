"""The trace file of a simulated step: its rank classes as parallel processes, arrows between them, memory and link
utilisation over time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

import numpy as np

from simfrontier.answers.step.bytes_moved import Traffic
from simfrontier.answers.step.links_over_time import link_use
from simfrontier.core.engine import SimulatedStep, Walk, meetings, memory_timeline, spans_of, trace_notes
from simfrontier.core.program import Exchange
from simfrontier.core.trace import Arrow, Counter, Mark, Place, Process, Span, TraceFile, arrows_from_last, ranges_text

MOST_SPANS: Final = 50_000  # of a file, which has some 300 bytes for each, arrows and counters included
LONGEST_RANKS: Final = 40  # letters of a name; all members are in the file


def shown_ranks(step: SimulatedStep, most_spans: int = MOST_SPANS) -> tuple[Walk, ...]:
    """Return the rank classes shown in a trace file, in the order of its processes: the critical one first with single
    ops, the others by their lowest rank.

    Shown are the classes of the critical pipeline, and then further pipelines from the lowest rank on, as long as all
    together have at most `most_spans` spans. If the critical pipeline alone has more, it is shown alone, with one span
    for each call that was simulated as a whole; if it still has more, as many of its stages as fit.
    """
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
    return shown[0], *sorted(shown[1:], key=lambda walk: walk.cls)


def _notes(step: SimulatedStep, walks: Sequence[Walk], most_spans: int) -> dict[str, str]:
    """Return notes on what the file leaves out, if anything."""
    folding, out = step.pricing.folding, {}
    if any(walk.by_call for walk in walks):
        out["by_call"] = "all processes but the first show the calls of their stage as one span each"
    num_left = folding.num_rank_classes - len(walks)
    if num_left:
        all_ranks = len(folding.rank_class)
        left = all_ranks - sum(len(walk.members) for walk in walks)
        out["left_out"] = (
            f"{num_left:,} of {folding.num_rank_classes:,} rank classes ({left:,} of {all_ranks:,} ranks): with them, "
            f"op by op, these are more than {most_spans:,} spans"
        )
    return out


def _processes(walks: Sequence[Walk]) -> Iterator[Process]:
    """Yield the trace process of every shown rank class; classes of one role with the same level of detail share their
    spans.
    """
    known: dict[tuple[int, bool], tuple[Span, ...]] = {}
    for walk in walks:
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


def _name(walk: Walk) -> str:
    """Return the name of a process: its stage (role) and its ranks."""
    at, members, ranks = walk.at, walk.members, ranges_text(walk.members)
    if len(ranks) > LONGEST_RANKS:
        ranks = f"{members[0]} and others"
    word = "ranks" if len(members) > 1 else "rank"
    place = "" if at is None else "{} {}: ".format(*at)
    return f"{place}{word} {ranks} ({len(members):,} of {walk.step.schedule.mesh.num_ranks:,})"


def _pipelines(step: SimulatedStep) -> list[tuple[int, ...]]:
    """Return every rank class once, grouped into pipelines: the classes of other roles whose ranks share all other mesh
    coordinates with the lowest rank of the class. The critical pipeline comes first, the others follow from the lowest
    rank.
    """
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


def arrows_of(walks: Sequence[Walk]) -> list[Arrow]:
    """Return all arrows between rank classes. Each end is the index of a shown class and of an op in it. Arrows are
    ordered by the ops at which they start, which is the order in time on a lane.
    """
    made: list[Arrow] = []
    for op, places in meetings(walks):
        made += _sent(walks, op, places) if isinstance(op, Exchange) else arrows_from_last(walks, places)
    return sorted(made, key=lambda arrow: (arrow.source, arrow.target))


def _sent(walks: Sequence[Walk], op: Exchange, places: Sequence[Place]) -> Iterator[Arrow]:
    """Yield arrows from the ranks at a sending end of an exchange to those at the other end."""
    ends: dict[int, list[Place]] = {end: [] for end in op.ends}
    for place in places:
        at = walks[place[0]].at
        assert at is not None and at[1] in ends, f"{op.name}: an exchange of a role at {at}"
        ends[at[1]].append(place)
    there, back = op.ends
    for begin, end, is_sent in ((there, back, op.src), (back, there, op.back_src)):
        if is_sent:
            yield from (Arrow(source, target) for source in ends[begin] for target in ends[end])


MEMORY = "memory"
LINKS = "share of the links' capacity"


def step_trace(
    step: SimulatedStep,
    digest: str,
    title: str,
    moved: Traffic,
    most_spans: int = MOST_SPANS,
) -> TraceFile:
    """Return the trace of a step with traffic `moved`. If the step has more rank classes than a file has room for, some
    are left out (`shown_ranks`) and the notes say so."""
    walks = shown_ranks(step, most_spans)
    return TraceFile(
        digest=digest,
        title=title,
        processes=list(_processes(walks)),
        arrows=arrows_of(walks),
        counters=[*(_memory(number, walk) for number, walk in enumerate(walks)), *_links(step, moved)],
        marks=[
            Mark(time_s=after.begin_s, text=after.perturbation.changed_from(before.perturbation))
            for before, after in pairwise(step.states)
            if after.begin_s < step.step_s
        ],
        notes={**trace_notes(step), **_notes(step, walks, most_spans)},
    )


def _memory(number: int, walk: Walk) -> Counter:
    """Return the counter of bytes allocated on the rank, at every change; for whole calls, the maximum from the start
    of one call to the start of the next.
    """
    timeline = memory_timeline(walk.step, walk.cls)
    times, held = timeline.times, np.sum(list(timeline.held.values()), axis=0)
    if walk.by_call:
        begin_s = np.unique([0.0, *walk.start_s.tolist(), walk.step.step_s])
        # from what is held as a call starts to the last change before the next one starts
        first, after = np.searchsorted(times, begin_s, "right") - 1, np.searchsorted(times, begin_s[1:], "left")
        each = np.stack([first, np.append(after, len(times))], axis=1).ravel()[:-1]
        times, held = begin_s, np.maximum.reduceat(held, each)[::2]
    changes = np.concatenate([[True], held[1:] != held[:-1]])
    values = np.rint(held[changes]).astype(np.int64).tolist()
    return Counter(name=MEMORY, process=number, times_s=times[changes].tolist(), values={"bytes": values})


def _links(step: SimulatedStep, moved: Traffic) -> Iterator[Counter]:
    """Yield the utilisation counter of every link class that carries traffic; 0 from the end of the step on."""
    use = link_use(step, moved)
    if not use.num_bytes:
        return
    shares = {name: use.share(name) for name in use.num_bytes}
    changes = np.ones(len(use.times_s), bool)
    changes[1:] = np.any([each[1:] != each[:-1] for each in shares.values()], axis=0)
    times = [*use.times_s[changes].tolist(), step.step_s]
    values = {name: [*each[changes].tolist(), 0.0] for name, each in shares.items()}
    yield Counter(name=LINKS, process=None, times_s=times, values=values)
