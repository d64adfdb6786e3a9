"""The file of a wiring: what is saved is loaded again; anything else is refused in one line that says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier_extras.emulation.wiring import Cable, Wiring, load_wiring, save_wiring

Form = dict[str, Any]


def cable(src: str, dst: str, bytes_per_s: float = 1e6) -> Cable:
    return Cable(name=f"{src}>{dst}", link_class="wire", src=src, dst=dst, bytes_per_s=bytes_per_s, burst_bytes=1600)


# Two ranks on either side of a box in the middle; cables 0 and 1 lead from a to b, 2 and 3 back.
WIRING = Wiring(
    title="a line",
    boxes=("a", "m", "b"),
    ranks=("a", "b"),
    cables=(cable("a", "m"), cable("m", "b", 0.1e6 + 1 / 3), cable("b", "m"), cable("m", "a")),
    routes=(((), (0, 1)), ((2, 3), ())),
    packet_bytes=1500,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "wiring.json"
    save_wiring(WIRING, path)
    return path


def test_what_is_saved_is_loaded(path: Path) -> None:
    assert load_wiring(path) == WIRING
    assert [each.name for each in path.parent.iterdir()] == ["wiring.json"]


def test_equal_wirings_give_equal_files(path: Path, tmp_path: Path) -> None:
    save_wiring(load_wiring(path), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == path.read_bytes()


def first(form: Form) -> Form:
    out: Form = form["cables"][0]
    return out


REFUSED: list[tuple[Callable[[Form], object], str]] = [
    (lambda form: form.pop("title"), "title: missing"),
    (lambda form: form.update(titel="x"), 'titel: unknown key; did you mean "title"?'),
    (lambda form: form.update(format="x"), 'format: got "x", allowed: "simfrontier wiring", of a wiring'),
    (lambda form: form.update(version=2), "version: got 2, allowed: 1, which this simfrontier reads"),
    (lambda form: form.update(title="two\nlines"), 'title: got "two\\nlines", allowed: a text of one line'),
    (lambda form: form.update(boxes="abc"), 'boxes: got "abc", allowed: a list'),
    (lambda form: form.update(boxes=[]), "boxes: got [], allowed: a list of at least 1"),
    (lambda form: form["boxes"].append("a"), 'boxes: got "a" twice, allowed: every name once'),
    (lambda form: form.update(ranks=["a", "c"]), 'ranks[1]: got "c"; allowed: a, b, m'),
    (lambda form: form.update(ranks=["a", "a"]), 'ranks: got "a" twice, allowed: every name once'),
    (lambda form: form.update(packet_bytes=True), "packet_bytes: got true, allowed: a whole number"),
    (lambda form: form.update(packet_bytes=70000), "packet_bytes: got 70000"),
    (lambda form: form["cables"].append(3), "cables[4]: got 3, allowed: a table"),
    (lambda form: first(form).pop("dst"), "cables[0].dst: missing"),
    (lambda form: first(form).update(src="x"), 'cables[0].src: got "x"'),
    (lambda form: first(form).update(dst="a"), 'cables[0].dst: got "a", allowed: another box than src'),
    (
        lambda form: first(form).update(bytes_per_s=0),
        "cables[0].bytes_per_s: got 0, allowed: at least 1 and at most 1.15292e+18",
    ),
    (lambda form: first(form).update(bytes_per_s=float("inf")), "not a wiring: Infinity is not a number"),
    # 1500 bytes and Ethernet's 14: a shaper drops what is longer than its burst
    (
        lambda form: first(form).update(burst_bytes=1513),
        "cables[0].burst_bytes: got 1513, allowed: at least a packet, 1514",
    ),
    (lambda form: first(form).update(name="m>b"), 'cables: got "m>b" twice, allowed: every name once'),
    (lambda form: form["routes"].pop(), "routes: got 1 entries, allowed: 2, one per rank"),
    (lambda form: form["routes"][1].pop(), "routes[1]: got 1 entries, allowed: 2, one per rank"),
    (
        lambda form: form["routes"][0].__setitem__(1, [0, 4]),
        "routes[0][1][1]: got 4, allowed: a whole number from 0 to 3",
    ),
    (lambda form: form["routes"][0].__setitem__(1, [1]), 'routes[0][1]: got "m>b", allowed: a cable from "a"'),
    (lambda form: form["routes"][0].__setitem__(1, [0]), 'routes[0][1]: got "a route to m", allowed: one to "b"'),
    (
        lambda form: form["routes"][0].__setitem__(1, [0, 3, 0, 1]),
        'routes[0][1]: got "m>a", allowed: a route that visits',
    ),
    (lambda form: form["routes"][0].__setitem__(0, [0, 3]), 'routes[0][0]: got "m>a"'),
]


@pytest.mark.parametrize(("change", "message"), REFUSED, ids=[message for _, message in REFUSED])
def test_a_malformed_file_is_refused_in_one_line(path: Path, change: Callable[[Form], object], message: str) -> None:
    form = json.loads(path.read_text(encoding="utf-8"))
    change(form)
    path.write_text(json.dumps(form), encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_wiring(path)
    assert str(refused.value).startswith(f"{path}: {message}") and "\n" not in str(refused.value)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_json_table_is_refused_in_one_line(path: Path, text: bytes) -> None:
    path.write_bytes(text)
    with pytest.raises(InputError) as refused:
        load_wiring(path)
    assert str(refused.value).startswith(f"{path}: ") and "\n" not in str(refused.value)


def test_places_that_cannot_be_read_or_written(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read this wiring: No such file"):
        load_wiring(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be written: No such file"):
        save_wiring(WIRING, tmp_path / "none" / "wiring.json")
