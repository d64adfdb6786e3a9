"""How a well-formed file is changed: bytes, words, lines, and facts of a TOML or JSON document."""

from __future__ import annotations

import json
import random
import re
from copy import deepcopy
from typing import Any

WORDS = (
    *("0", "-1", "1", "2", "1e308", "nan", "-inf", "Infinity", "9" * 5000, "true", "null", '""', "[]", "{}", "x" * 300),
    *("a.b.c.d.e", "../..", "1_000_000_000", "18446744073709551616", "2026-11-22", "\u202e", "\x00", "\n\n", "=", ","),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 1 << 20, 1 << 40, 10**30, 0.5, -0.5, 1e300, 1e-300, "", "x", "x" * 300),
    *("all", "sum", "fp16", "uint8", [], {}, [[]], [0] * 50, {"": 0}, {"value": -1}),
)
LARGEST = 8 << 20  # bytes; a longer file is not changed further
_TOKEN = re.compile(rb"[A-Za-z_]+|[0-9.eE+-]+|\"[^\"\n]*\"")


def changed(rng: random.Random, sample: bytes, others: list[bytes]) -> bytes:
    """Return a sample with one to four changes; some take a piece of another sample."""
    out = _changed_document(rng, sample) if rng.random() < 0.4 else sample
    for _ in range(rng.choice((0, 1, 1, 2, 3)) if out != sample else rng.choice((1, 1, 2, 4))):
        if len(out) < LARGEST:
            out = rng.choice((_flip, _cut, _word, _word, _word, _double, _splice, _nest))(rng, out, others)
    return out


def _flip(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    out = bytearray(text)
    for _number in range(rng.choice((1, 1, 3, 20)) if out else 0):
        out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _cut(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    at, end = sorted(rng.randrange(len(text) + 1) for _number in range(2))
    return text[:at] if rng.random() < 0.3 else text[:at] + text[end:]


def _word(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    begin = rng.randrange(max(1, len(text) - LARGEST // 128))
    tokens = list(_TOKEN.finditer(text, begin, begin + LARGEST // 128))
    if not tokens:
        return rng.choice(WORDS).encode()
    token = rng.choice(tokens)
    new = rng.choice(WORDS).encode() if rng.random() < 0.7 else rng.choice(tokens)[0]
    return text[: token.start()] + new + text[token.end() :]


def _double(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    times = rng.choice((2, 2, 50)) if len(lines[at]) < LARGEST // 128 else 2
    return b"\n".join([*lines[:at], *[lines[at]] * times, *lines[at + 1 :]])


def _splice(rng: random.Random, text: bytes, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    at, end = sorted(rng.randrange(len(other) + 1) for _number in range(2))
    place = rng.randrange(len(text) + 1)
    return text[:place] + other[at:end] + text[place:]


def _nest(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice((b"[", b'{"a":', b"(", b" ", b".a")) * rng.choice((5, 40, 2_000)) + text[place:]


# ── documents ──


def _changed_document(rng: random.Random, sample: bytes) -> bytes:
    """Return the same JSON document with one or two facts changed; TOML is changed line by line."""
    try:
        form = json.loads(sample)
    except ValueError:
        return _changed_line(rng, sample)
    for _ in range(rng.choice((1, 1, 2))):
        places = _places(form)
        if places:
            _change_fact(rng, *rng.choice(places), places)
    return json.dumps(form).encode("utf-8", "surrogatepass")


def _places(form: Any) -> list[tuple[Any, Any]]:
    """Every (table or list, key) of a document."""
    keys = list(form) if isinstance(form, dict) else range(len(form)) if isinstance(form, list) else ()
    return [(form, key) for key in keys] + [place for key in keys for place in _places(form[key])]


def _change_fact(rng: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    old = holder[key]
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(old, int | float) and not isinstance(old, bool):
            holder[key] = rng.choice((old + 1, old - 1, -old, old * 2, old * 10**9))
        case 2:
            other, its_key = rng.choice(places)
            holder[key] = deepcopy(other[its_key])
        case 3 if isinstance(old, list):
            holder[key] = deepcopy(old * rng.choice((2, 30)) if rng.random() < 0.5 else old[::-1])
        case 4 if isinstance(holder, dict):
            holder[rng.choice(("x", "", str(key) * 2))] = holder.pop(key)
        case _:
            holder[key] = deepcopy(rng.choice(VALUES))


def _changed_line(rng: random.Random, sample: bytes) -> bytes:
    lines = sample.split(b"\n")
    settings = [number for number, line in enumerate(lines) if b"=" in line]
    if not settings:
        return sample
    at = rng.choice(settings)
    key, _, _ = lines[at].partition(b"=")
    lines[at] = key + b"= " + json.dumps(rng.choice(VALUES)).replace("null", "nan").encode()
    return b"\n".join(lines)
