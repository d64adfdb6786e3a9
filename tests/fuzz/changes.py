"""How a well-formed file is changed: bytes, words, numbers, and facts of a TOML or JSON document."""

from __future__ import annotations

import json
import random
import re
from copy import deepcopy
from typing import Any

WORDS = (
    *("0", "-1", "1", "2", "1e308", "-1e-308", "nan", "inf", "-inf", "NaN", "Infinity", "1" * 400, "9" * 5000, "0x7f"),
    *("true", "null", "''", '""', "[]", "{}", "[[]]", "x" * 300, "x" * 5000, "a.b.c.d.e", "../..", "/dev/zero"),
    *("1_000_000_000", "18446744073709551616", "2026-11-22", "\ufeff", "\u202e", "\x1b]0;t\x07", "\x00", "\r"),
    *("\\u001b[2J", "\n\n", "=", ","),
)
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 1 << 20, 1 << 31, 1 << 40, 10**30, 0.5, -0.5, 1e300, 1e-300, ""),
    *("x", "x" * 300, "\u202e", "all", "sum", "fp16", "uint8", [], {}, [[]], [0] * 50, {"": 0}, {"value": -1}),
)
LARGEST = (
    8 << 20
)  # bytes; what is longer is not changed further: five changes could make a sample a thousand times longer
NEARBY = 1 << 16  # bytes around a place in which words are looked for
_TOKEN = re.compile(rb"[A-Za-z_]+|[0-9.eE+-]+|\"[^\"\n]*\"")


def changed(rng: random.Random, sample: bytes, others: list[bytes]) -> bytes:
    """A sample with one to four changes; some take a piece of another sample."""
    out = sample
    if rng.random() < 0.4:
        out = _changed_document(rng, sample)
    for _ in range(rng.choice((0, 1, 1, 2, 3)) if out != sample else rng.choice((1, 1, 2, 4))):
        if len(out) > LARGEST:
            break
        out = rng.choice((_flip, _cut, _word, _word, _word, _double, _splice, _nest, _long))(rng, out, others)
    return out


def _flip(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    out = bytearray(text)
    for _number in range(rng.choice((1, 1, 3, 20))):
        if out:
            out[rng.randrange(len(out))] = rng.randrange(256)
    return bytes(out)


def _cut(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    at, end = sorted(rng.randrange(len(text) + 1) for _number in range(2))
    return text[:at] if rng.random() < 0.3 else text[:at] + text[end:]


def _word(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    begin = rng.randrange(max(1, len(text) - NEARBY))
    tokens = list(_TOKEN.finditer(text, begin, begin + NEARBY))
    if not tokens:
        return rng.choice(WORDS).encode()
    token = rng.choice(tokens)
    new = rng.choice(WORDS).encode() if rng.random() < 0.7 else rng.choice(tokens)[0]
    return text[: token.start()] + new + text[token.end() :]


def _double(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    lines = text.split(b"\n")
    at = rng.randrange(len(lines))
    times = rng.choice((2, 2, 50)) if len(lines[at]) < NEARBY else 2
    return b"\n".join([*lines[:at], *[lines[at]] * times, *lines[at + 1 :]])


def _splice(rng: random.Random, text: bytes, others: list[bytes]) -> bytes:
    other = rng.choice(others)
    at, end = sorted(rng.randrange(len(other) + 1) for _number in range(2))
    place = rng.randrange(len(text) + 1)
    return text[:place] + other[at:end] + text[place:]


def _nest(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    place, deep = rng.randrange(len(text) + 1), rng.choice((5, 40, 2_000, 100_000))
    return text[:place] + rng.choice((b"[", b'{"a":', b"(", b"\\", b" ", b".a")) * deep + text[place:]


def _long(rng: random.Random, text: bytes, _: list[bytes]) -> bytes:
    place = rng.randrange(len(text) + 1)
    return (
        text[:place] + rng.choice((b"x", b"9", b"-", b"a,", b"\t", b"\xff")) * rng.choice((300, 70_000)) + text[place:]
    )


# ── documents ──


def _changed_document(rng: random.Random, sample: bytes) -> bytes:
    """The same JSON document with one fact changed; TOML is changed line by line."""
    try:
        form = json.loads(sample)
    except ValueError:
        return _changed_line(rng, sample)
    places: list[tuple[Any, Any]] = []
    waiting = [form]
    while waiting:
        each = waiting.pop()
        keys = list(each) if isinstance(each, dict) else range(len(each)) if isinstance(each, list) else ()
        places += [(each, key) for key in keys]
        waiting += [each[key] for key in keys if isinstance(each[key], dict | list)]
    for _ in range(rng.choice((1, 1, 2))):
        if places:
            _change_fact(rng, *rng.choice(places), places)
    return json.dumps(form).encode("utf-8", "surrogatepass")


def _change_fact(rng: random.Random, holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    if not _holds(holder, key):
        return
    old = holder[key]
    match rng.randrange(6):
        case 0:
            del holder[key]
        case 1 if isinstance(old, int | float) and not isinstance(old, bool):
            holder[key] = rng.choice((old + 1, old - 1, -old, old * 2, old * 10**9))
        case 2 if _holds(*(place := rng.choice(places))):
            other, its_key = place
            holder[key] = deepcopy(other[its_key])  # of what may hold this very place
        case 3 if isinstance(old, list) and old:
            holder[key] = deepcopy(old * rng.choice((2, 30)) if rng.random() < 0.5 else old[::-1])
        case 4 if isinstance(holder, dict):
            holder[rng.choice(("x", "", "\u001b", str(key) * 2))] = holder.pop(key)
        case _:
            holder[key] = deepcopy(rng.choice(VALUES))


def _holds(holder: Any, key: Any) -> bool:
    """Whether a place is still there: an earlier change may have taken it away."""
    return key in holder if isinstance(holder, dict) else key < len(holder)


def _changed_line(rng: random.Random, sample: bytes) -> bytes:
    lines = sample.split(b"\n")
    settings = [number for number, line in enumerate(lines) if b"=" in line]
    if not settings:
        return sample
    at = rng.choice(settings)
    key, _, _ = lines[at].partition(b"=")
    lines[at] = key + b"= " + json.dumps(rng.choice(VALUES)).replace("null", "nan").encode()
    return b"\n".join(lines)
