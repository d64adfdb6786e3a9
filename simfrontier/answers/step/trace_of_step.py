"""The trace file of a simulated step: its rank classes side by side, arrows between them, memory and links over
time."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from simfrontier.answers.step.arrows import arrows_of
from simfrontier.answers.step.bytes_moved import Traffic
from simfrontier.answers.step.links_over_time import link_use
from simfrontier.answers.step.shown_ranks import MOST_SPANS, shown_ranks
from simfrontier.core.engine import SimulatedStep, Walk, memory_timeline, trace_notes
from simfrontier.core.trace import Counter, Mark, TraceFile

MEMORY = "memory"
LINKS = "share of the links' capacity"


def step_trace(
    step: SimulatedStep,
    digest: str,
    title: str,
    moved: Traffic,
    most_spans: int = MOST_SPANS,
) -> TraceFile:
    """The file of a step that moves so many bytes. Of more rank classes than a file has room for some are left out
    (`shown_ranks`), which its notes say."""
    shown = shown_ranks(step, most_spans)
    return TraceFile(
        digest=digest,
        title=title,
        processes=list(shown.processes()),
        arrows=arrows_of(shown.walks),
        counters=[*(_memory(number, walk) for number, walk in enumerate(shown.walks)), *_links(step, moved)],
        marks=[
            Mark(time_s=after.begin_s, text=after.perturbation.changed_from(before.perturbation))
            for before, after in pairwise(step.states)
            if after.begin_s < step.step_s
        ],
        notes={**trace_notes(step), **shown.notes},
    )


def _memory(number: int, walk: Walk) -> Counter:
    """Bytes that the rank holds, at every change; by call the most that it holds from the start of one to that of the
    next."""
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
    """Yield the use of every link class that carries anything; 0 from the end of the step on."""
    use = link_use(step, moved)
    if not use.num_bytes:
        return
    shares = {name: use.share(name) for name in use.num_bytes}
    changes = np.ones(len(use.times_s), bool)
    changes[1:] = np.any([each[1:] != each[:-1] for each in shares.values()], axis=0)
    times = [*use.times_s[changes].tolist(), step.step_s]
    values = {name: [*each[changes].tolist(), 0.0] for name, each in shares.items()}
    yield Counter(name=LINKS, process=None, times_s=times, values=values)
