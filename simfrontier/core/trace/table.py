"""The trace table: one span per op and rank (or class of ranks), with the digest of the schedule that was run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

SHOWN_DIGITS: Final = 16  # of a digest
CALIBRATION: Final = "calibration"  # note of a simulated trace: the file that its scenario names
OTHERS_SHARE: Final = "others_share"  # note of a real trace: the share of the processors that other programs took
CALIBRATION_RESIDUAL: Final = "calibration_residual"  # note of a simulated trace: how far two measurements of the
# calibration's times lie apart (median, relative)
SIMULATED: Final = "simulated"  # the mode of a simulated trace, in its notes
HELD_RANKS: Final = "held_ranks"  # note of a real trace that holds the ops of some ranks only: which, as text


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One op on one rank. Times in seconds from the start of the step: ready, started (its group was ready too), ended.

    `op` is its index in the expansion of the rank's program. `level` is the coarsest boundary that a collective
    crosses: package, intra_node or inter_node; "" for local work. `num_bytes` is what the rank sends, or the memory
    traffic of local work. `message_bytes` are the call's messages, scales included, whatever the algorithm; 0 for local
    work.
    """

    op: int
    lane: str
    kind: str
    name: str
    axes: str
    level: str
    call: str
    layer: int
    micro: int
    num_bytes: float
    message_bytes: float
    ready_s: float
    start_s: float
    end_s: float


def rank_text(members: Sequence[int], num_ranks: int) -> str:
    """Ranks that stand for each other, for a reader: the lowest, and how many they are."""
    return f"rank {members[0]} (stands for {len(members):,} of {num_ranks:,})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """All spans of a run by rank; `ranks`: a text for each list of spans, `members`: its ranks,
    ascending. `notes`: how the times were made (machine, backend, iterations …)."""

    digest: str
    title: str
    ranks: tuple[str, ...]
    members: tuple[tuple[int, ...], ...]
    spans: tuple[tuple[Span, ...], ...]
    notes: Mapping[str, str] = field(default_factory=dict)

    @property
    def step_s(self) -> float:
        """End of the last op of any rank."""
        return max((span.end_s for spans in self.spans for span in spans), default=0.0)
