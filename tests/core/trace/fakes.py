"""Traces by hand, and traces that look measured: a simulated one with every rank apart and its times changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from simfrontier.core.trace import Span, Trace

DIGEST = "0123456789abcdef" * 4


def span(op: int, start_s: float, end_s: float, **more: Any) -> Span:
    """A matrix product, or with `axes` an all-gather of 2 MB; ready when it starts unless said otherwise."""
    plain: dict[str, Any] = {
        "op": op,
        "lane": "gather" if "axes" in more else "compute",
        "kind": "all_gather" if "axes" in more else "matmul",
        "name": "weights" if "axes" in more else "qkv",
        "axes": "",
        "level": "intra_node" if "axes" in more else "",
        "call": "forward",
        "layer": 1,
        "micro": 0,
        "num_bytes": 1e6,
        "message_bytes": 2e6 if "axes" in more else 0.0,
        "ready_s": start_s,
        "start_s": start_s,
        "end_s": end_s,
    }
    return Span(**{**plain, **more})


def trace(*spans: tuple[Span, ...], members: tuple[tuple[int, ...], ...] | None = None, **more: Any) -> Trace:
    """A trace of those lists of spans, by default of ranks 0, 1, …"""
    own = members or tuple((rank,) for rank in range(len(spans)))
    plain: dict[str, Any] = {"digest": DIGEST, "title": "by hand", "notes": {}}
    who = tuple(f"rank {several[0]}" for several in own)
    return Trace(**{**plain, **more}, ranks=who, members=own, spans=spans)


def measured(
    simulated: Trace,
    factor: float = 1.1,
    seed: int = 0,
    notes: Mapping[str, str] | None = None,
    change: Callable[[Span], Span] = lambda span: span,
) -> Trace:
    """Every rank by itself, all times stretched by `factor`, and ends up to a tenth earlier, so that lanes stay FIFOs;
    `change` may then alter a span."""
    random = Random(seed)
    lists = {rank: spans for ranks, spans in zip(simulated.members, simulated.spans, strict=True) for rank in ranks}

    def moved(span: Span) -> Span:
        start, end = factor * span.start_s, factor * span.end_s
        end -= random.uniform(0.0, 0.1) * (end - start)
        return change(replace(span, ready_s=factor * span.ready_s, start_s=start, end_s=end, level="intra_node"))

    lists = {rank: tuple(map(moved, spans)) for rank, spans in sorted(lists.items())}
    made = replace(
        simulated,
        title="fake",
        ranks=tuple(f"rank {rank} on here" for rank in lists),
        members=tuple((rank,) for rank in lists),
        spans=tuple(lists.values()),
    )
    known = {"mode": "replay", "backend": "gloo", "iterations": "20", "step_iqr_s": f"{0.02 * made.step_s:.9f}"}
    return replace(made, notes={**known, "step_median_s": f"{made.step_s:.9f}", **(notes or {})})
