"""The trace file: what is written comes back, and whatever is not such a file is one line with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simfrontier.base.errors import InputError
from simfrontier.core.trace import Span, Trace, perfetto_text, read_perfetto, write_perfetto
from tests.core.trace.fakes import span, trace

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cf"]), max_size=6)
SECONDS = st.floats(-1e3, 1e5, allow_nan=False)
BYTES = st.floats(0, 1e18, allow_nan=False)
WHOLE = st.integers(0, 10**6)
SPANS = st.builds(
    Span,
    op=WHOLE,
    lane=st.sampled_from(["compute", "gather", "é \"'<"]),
    kind=TEXT,
    name=TEXT,
    axes=TEXT,
    level=TEXT,
    call=TEXT,
    layer=WHOLE,
    micro=WHOLE,
    num_bytes=BYTES,
    message_bytes=BYTES,
    ready_s=SECONDS,
    start_s=SECONDS,
    end_s=SECONDS,
)


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Up to four lists of spans, standing for disjoint ranks."""
    count = draw(st.integers(0, 4))
    owner = draw(st.lists(st.integers(-1, count - 1), max_size=30)) if count else []
    return Trace(
        digest=draw(TEXT),
        title=draw(TEXT),
        ranks=tuple(draw(TEXT) for _ in range(count)),
        members=tuple(tuple(r for r, of in enumerate(owner) if of == i) for i in range(count)),
        spans=tuple(tuple(draw(st.lists(SPANS, max_size=3))) for _ in range(count)),
        notes=draw(st.dictionaries(TEXT, TEXT, max_size=3)),
    )


def rounded(made: Trace) -> Trace:
    """The same with its times as whole nanoseconds."""

    def whole(seconds: float) -> float:
        return round(round(seconds / 1e-6, 3) * 1e3) / 1e9

    def of(span: Span) -> Span:
        return replace(span, ready_s=whole(span.ready_s), start_s=whole(span.start_s), end_s=whole(span.end_s))

    return replace(made, spans=tuple(tuple(map(of, spans)) for spans in made.spans))


@given(traces())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
def test_a_written_trace_comes_back_to_the_nanosecond(tmp_path: Path, made: Trace) -> None:
    path, again = tmp_path / "trace.json", tmp_path / "again.json"
    write_perfetto(made, path)
    read = read_perfetto(path)
    assert read == rounded(made)
    write_perfetto(read, again)
    assert again.read_bytes() == path.read_bytes()


def small() -> Trace:
    spans = (span(0, 0.0, 1e-3), span(1, 1e-3, 3e-3, axes="node+gcd", ready_s=0.5e-3))
    return trace(spans, spans[:1], members=((0, 1, 2, 3), (4,)), notes={"backend": "gloo"})


def test_neighbours_on_a_lane_do_not_overlap(tmp_path: Path) -> None:
    """0.4 ns and 1.0006 µs: an end that is rounded apart from the next start would lie after it."""
    write_perfetto(trace((span(0, 4e-10, 1.0006e-6), span(1, 1.0006e-6, 2.4e-6))), tmp_path / "t.json")
    a, b = read_perfetto(tmp_path / "t.json").spans[0]
    assert (a.start_s, a.end_s, b.start_s, b.end_s) == (0.0, 1.001e-6, 1.001e-6, 2.4e-6)


def test_75264_ranks_take_a_line() -> None:
    text = perfetto_text(trace((span(0, 0.0, 1.0),), members=(tuple(range(75264)),)))
    assert len(text) < 1000 and json.loads(text)["traceEvents"][0]["args"]["members"] == "0-75263"


def file_with(tmp_path: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    path = tmp_path / "trace.json"
    write_perfetto(small(), path)
    form = json.loads(path.read_text(encoding="utf-8"))
    change(form)
    path.write_text(json.dumps(form), encoding="utf-8")
    return path


def spanned(form: dict[str, Any], number: int = 0) -> dict[str, Any]:
    """An event that is a span."""
    known: dict[str, Any] = [event for event in form["traceEvents"] if event["ph"] == "X"][number]
    return known


def refused(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_perfetto(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ") and "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda f: f.pop("otherData"), "otherData: missing"),
        (lambda f: f["otherData"].update(version=2), "otherData.version: got 2, allowed: "),
        (lambda f: f["traceEvents"][0]["args"].update(members="4-0"), "'4-0': ranks do not ascend"),
        (lambda f: f["traceEvents"].pop(1), "not a whole trace: "),  # the name of a lane
        (lambda f: spanned(f).update(ts="0"), '.ts: got "0", allowed: a number'),
        (lambda f: spanned(f)["args"].update(op=-1), ".args.op: got -1, allowed: at least 0"),
        (lambda f: spanned(f)["args"].pop("call"), ".args.call: missing"),
    ],
)
def test_each_fault_names_its_place(tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    assert message in refused(file_with(tmp_path, change))
