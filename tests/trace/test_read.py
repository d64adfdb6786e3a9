"""The trace file: what is written comes back, and whatever is not such a file is one line with its place."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simfrontier.errors import InputError
from simfrontier.trace import Span, Trace, perfetto_text, read_perfetto, write_perfetto
from tests.trace.fakes import span, trace

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
        (lambda f: f.update(otherData=[]), "otherData: got [], allowed: a table"),
        (
            lambda f: f["otherData"].pop("format"),
            'otherData.format: got null, allowed: "simfrontier.trace", of a trace',
        ),
        (
            lambda f: f["otherData"].update(version=2),
            "otherData.version: got 2, allowed: 1, which this simfrontier reads",
        ),
        (
            lambda f: f["otherData"].update(version=True),
            "otherData.version: got true, allowed: 1, which this simfrontier reads",
        ),
        (lambda f: f["otherData"].update(notes={"a": 1}), "otherData.notes.a: got 1, allowed: a text"),
        (lambda f: f["otherData"].update(title="\ud800"), 'otherData.title: got "\\ud800", allowed: a text'),
        (lambda f: f["otherData"].pop("schedule_digest"), "otherData.schedule_digest: missing"),
        (lambda f: f.update(traceEvents={}), "traceEvents: got {}, allowed: a list"),
        (lambda f: f["traceEvents"].insert(0, 5), "traceEvents[0]: got 5, allowed: a table"),
        (lambda f: f["traceEvents"].pop(0), "traceEvents[0].pid: got 0, which has no process_name before it"),
        (lambda f: f["traceEvents"][0].update(pid=1), "traceEvents[0].pid: got 1, allowed: 0, the next process"),
        (
            lambda f: f["traceEvents"][0]["args"].update(members="0-4"),
            "traceEvents[5].args.members: got rank 4 in two processes, allowed: every rank once",
        ),
        (lambda f: f["traceEvents"][0]["args"].update(members="4-0"), "args.members: '4-0': ranks do not ascend"),
        (lambda f: f["traceEvents"][0]["args"].pop("members"), "traceEvents[0].args.members: missing"),
        (lambda f: f["traceEvents"].pop(1), "traceEvents[2].tid: got 0, which has no thread_name before it"),
        (
            lambda f: spanned(f).update(ph="B"),
            'traceEvents[3]: got an event "B" "matmul qkv", allowed: X, C, i, s, f, M with process_name or thread_name',
        ),
        (lambda f: spanned(f).update(ts="0"), '.ts: got "0", allowed: a number'),
        (lambda f: spanned(f).update(ts=1e13), ".ts: got 10000000000000.0, allowed: "),
        (lambda f: spanned(f).update(dur=10**400), "traceEvents[3].dur: got 100000000000000000000000000000000000"),
        (lambda f: spanned(f)["args"].update(op=-1), ".args.op: got -1, allowed: a whole number of 0 or more"),
        (lambda f: spanned(f)["args"].update(op=1.0), ".args.op: got 1.0, allowed: a whole number of 0 or more"),
        (lambda f: spanned(f)["args"].update(op=True), ".args.op: got true, allowed: a whole number of 0 or more"),
        (lambda f: spanned(f)["args"].update(bytes=-1), ".args.bytes: got -1, allowed: "),
        (lambda f: spanned(f)["args"].update(bytes=None), ".args.bytes: got null, allowed: a number"),
        (
            lambda f: spanned(f)["args"].update(kind=["x" * 99]),
            'traceEvents[3].args.kind: got ["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx',
        ),
        (lambda f: spanned(f)["args"].pop("call"), ".args.call: missing"),
        (lambda f: spanned(f, 1)["args"].update(message_bytes="2"), '.args.message_bytes: got "2", allowed: a number'),
    ],
)
def test_each_fault_names_its_place(tmp_path: Path, change: Callable[[dict[str, Any]], object], message: str) -> None:
    assert message in refused(file_with(tmp_path, change))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1 column 1: not JSON"),
        (b"{", "line 1 column 2: not JSON"),
        (b"[]", "got [], allowed: a table"),
        (b"\x80", "not a trace: byte 0 is not UTF-8 text"),
        (b"NaN", "not a trace: NaN is not a number"),
        (b"[" * 100_000, "not a trace: nested too deeply"),
        (
            b'{"otherData":' + b"[" * 900 + b"]" * 900 + b"}",
            "otherData: got [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
        ),
    ],
)
def test_what_is_no_json_object(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.json"
    path.write_bytes(content)
    assert refused(path).startswith(message)


def test_what_is_no_file(tmp_path: Path) -> None:
    assert refused(tmp_path / "no.json") == "cannot read this trace: No such file or directory"
    assert refused(tmp_path) == "cannot read this trace: Is a directory"


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.json"
    write_perfetto(small(), path)
    whole = path.read_bytes()
    for kept in range(0, len(whole) - 1, 7):
        path.write_bytes(whole[:kept])
        assert ": not JSON" in refused(path)


def test_any_value_in_any_place_is_read_or_refused_in_one_line(tmp_path: Path) -> None:
    """Every value of the file in turn becomes something else, or is left out."""
    odd = [None, True, -1, 1.5, 10**30, "", "x", [], {}, [[]], {"a": {}}]
    chance = random.Random(1)
    places: list[tuple[Any, ...]] = []

    def walk(value: Any, at: tuple[Any, ...]) -> None:
        places.append(at)
        keys = value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            walk(value[key], (*at, key))

    path = file_with(tmp_path, lambda form: walk(form, ()))
    good = path.read_text(encoding="utf-8")
    refusals = 0
    for at in places[1:]:
        form: Any = json.loads(good)
        value = form
        for key in at[:-1]:
            value = value[key]
        if chance.random() < 0.2:
            del value[at[-1]]
        else:
            value[at[-1]] = chance.choice(odd)
        path.write_text(json.dumps(form), encoding="utf-8")
        try:
            read_perfetto(path)
        except InputError as error:
            refusals += 1
            assert "\n" not in str(error) and str(error).startswith(f"{path}: ")
    assert refusals > len(places) / 3


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for path, reason in ((tmp_path / "folder", "Is a directory"), (tmp_path / "no" / "t.json", "No such file")):
        with pytest.raises(InputError, match=f"{path}: cannot be written: {reason}"):
            write_perfetto(small(), path)
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
