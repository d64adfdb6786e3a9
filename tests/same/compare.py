"""What differs between the outputs of two checkouts, one line for each file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from tests.same.collect import SECONDS, TIMELINES
from tests.same.pages import ShownPage


def differences(before: Path, after: Path) -> list[str]:
    """One line for each file that is not equal byte for byte, for each page that does not show the same, and for each
    array that is not equal bit for bit."""
    lines = []
    names = sorted({path.relative_to(side) for side in (before, after) for path in side.rglob("*") if path.is_file()})
    for name in names:
        if str(name) == SECONDS:
            continue
        if not (before / name).exists() or not (after / name).exists():
            lines.append(f"{name}: only {'after' if (after / name).exists() else 'before'}")
        elif str(name) == TIMELINES:
            lines += _arrays(before / name, after / name)
        elif name.suffix == ".html":
            old, new = (ShownPage((side / name).read_text(encoding="utf-8")).shown() for side in (before, after))
            lines += [f"{name}: {path}" for path in islice(_paths(old, new), 1)]
        elif (old := (before / name).read_bytes()) != (new := (after / name).read_bytes()):
            lines.append(f"{name}: {_first(name, old.decode(errors='replace'), new.decode(errors='replace'))}")
    return lines


def _arrays(before: Path, after: Path) -> Iterator[str]:
    with np.load(before) as old, np.load(after) as new:
        for name in sorted({*old.files, *new.files}):
            if name not in old.files or name not in new.files:
                yield f"timeline of {name}: only {'after' if name in new.files else 'before'}"
            elif old[name].shape != new[name].shape:
                yield f"timeline of {name}: {old[name].shape[-1]} times, now {new[name].shape[-1]}"
            elif old[name].tobytes() != new[name].tobytes():
                apart = np.abs(new[name] - old[name])
                yield f"timeline of {name}: {np.count_nonzero(apart)} times differ, by {apart.max():.3g} s at most"


def _first(name: Path, old: str, new: str) -> str:
    """Where two texts differ first, in the words of the file's form."""
    if name.suffix == ".csv":
        return _first_cell(old, new)
    if name.suffix == ".json" or old[:1] in "{[":
        try:
            return next(_paths(json.loads(old), json.loads(new)), "the same values, written differently")
        except ValueError:
            pass
    pairs = zip(old.split("\n"), new.split("\n"), strict=False)
    number, (was, now) = next(((n, p) for n, p in enumerate(pairs, 1) if p[0] != p[1]), (0, ("", "")))
    at = next((n for n, (a, b) in enumerate(zip(was, now, strict=False)) if a != b), min(len(was), len(now)))
    begin = max(0, at - 30)
    return f"line {number}: {was[begin : at + 50]!r}, now {now[begin : at + 50]!r}"


def _first_cell(old: str, new: str) -> str:
    rows = zip(csv.DictReader(io.StringIO(old)), csv.DictReader(io.StringIO(new)), strict=False)
    for number, (was, now) in enumerate(rows, 1):
        for column in {**was, **now}:
            if was.get(column) != now.get(column):
                return f"row {number}, {column}: {was.get(column)}, now {now.get(column)}"
    return f"{old.count(chr(10))} lines, now {new.count(chr(10))}"


def _paths(old: Any, new: Any, path: str = "") -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if key not in old or key not in new:
                yield f"{path}.{key}: only {'after' if key in new else 'before'}"
            else:
                yield from _paths(old[key], new[key], f"{path}.{key}")
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{path}: {len(old)} entries, now {len(new)}"
        for number, (was, now) in enumerate(zip(old, new, strict=False)):
            yield from _paths(was, now, f"{path}[{number}]")
    elif old != new or type(old) is not type(new):
        yield f"{path}: {str(old)[:80]}, now {str(new)[:80]}"
