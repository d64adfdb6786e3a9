"""Lowering of a recipe to the transfers of one group, which are proved to have the effect of the collective; and the
recipes of all collectives of a schedule, with their file format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Final

from simfrontier.base.errors import InputError, wrong
from simfrontier.base.io import Rule, headed, read_json, typed
from simfrontier.base.wholefile import write_whole
from simfrontier.core.collectives.algorithms import algorithm, all_algorithms
from simfrontier.core.collectives.transfers import TRANSFERS, Lowered, Recipe, Transfer
from simfrontier.core.program import ChunkSum, Clash, CollectiveKind, Form, Interpreter

FORMAT: Final = "simfrontier.lowered"
VERSION: Final = 1
DIGEST: Final = re.compile("[0-9a-f]{64}")


@lru_cache(maxsize=256)
def lower(kind: CollectiveKind, recipe: Recipe) -> Lowered:
    """Return the transfers of a collective. Raises InputError if the algorithm does not support the kind of collective,
    the recipe is inconsistent, or there are too many transfers."""
    if text := recipe.fault():
        raise InputError(f"recipe {recipe.algorithm}: {text}")
    by = algorithm(recipe.algorithm)
    if kind not in by.collectives:
        others = [each.name for each in all_algorithms() if kind in each.collectives]
        raise InputError(f"{recipe.algorithm} does not carry {kind}; allowed for it: {', '.join(others)}")
    if fault := TRANSFERS.fault(by.num_transfers(kind, recipe)):
        parts = f"{recipe.size} members, {len(recipe.orders)} channels, {recipe.slices} slices"
        raise InputError(f"{recipe.algorithm} {kind} of {parts}: {fault}")
    lowered = replace(by.lowered(kind, recipe), least_elements=recipe.least_elements)
    findings = prove(lowered)
    assert not findings, f"{recipe.algorithm} {kind}: {findings[0]}"
    return lowered


@dataclass(frozen=True, slots=True, kw_only=True)
class LoweredSchedule:
    """Recipes of the collectives of one schedule.

    `digest`: digest of the schedule. `recipes[i][g]`: recipe of the i-th distinct collective of the schedule, in order
    of appearance, in its g-th group, as numbered by `schedule.mesh.groups(op.axes)`.
    """

    digest: str
    recipes: tuple[tuple[Recipe, ...], ...]


# ── the proof ──


def prove(lowered: Lowered) -> list[str]:
    """Return the errors of a lowered collective, as text; empty if its transfers have exactly the effect of its kind of
    collective.

    Each chunk of a rank's buffer is tracked as empty or as the sum of one message chunk over a set of ranks; tracking
    the set of ranks alone would accept a right sum of the wrong chunk. The proof runs the transfers one after the
    other. Any order allowed by `after` gives the same result, since `after` orders any two transfers of which one
    writes what the other reads or writes, except for two additions.
    """
    return list(_Proof(lowered).findings())


class _Proof(Interpreter[int]):
    """Contents of every chunk of every rank's buffer; chunks are numbered consecutively from buffer to buffer."""

    def __init__(self, lowered: Lowered) -> None:
        super().__init__()
        self.lowered, self.num_chunks = lowered, lowered.num_chunks
        self.fault = ""  # of the current transfer
        self.width = _widths(lowered)
        for member in range(lowered.size):
            self.held.update(
                zip(self._places(member, lowered.input(member)), lowered.meaning.before(member), strict=True)
            )

    def findings(self) -> Iterator[str]:
        """Run the transfers, compare the outputs of the ranks with the effect of the kind of collective, and yield the
        errors."""
        for number, transfer in enumerate(self.lowered.transfers):
            if text := self._misfit(transfer) or self._move(transfer):
                yield f"transfer {number} ({_transfer_text(transfer)}) {text}"
        for member in range(self.lowered.size):
            places = self._places(member, self.lowered.output(member))
            for place, wanted in zip(places, self.lowered.meaning.after(member), strict=True):
                form = self.held.get(place)
                if form != wanted:
                    yield f"member {member} ends with {_held_text(form)} in chunk {place % self.num_chunks}"

    def empty(self, place: int, adding: bool) -> None:
        chunk = place % self.num_chunks
        self.fault = self.fault or f"{'adds to' if adding else 'reads'} chunk {chunk}, which is empty"

    def clash(self, clash: Clash) -> None:
        self.fault = self.fault or _clash_text(clash)

    def _places(self, member: int, chunks: range) -> range:
        begin = member * self.num_chunks
        return range(begin + chunks.start, begin + chunks.stop)

    def _misfit(self, t: Transfer) -> str | None:
        size, end = self.lowered.size, self.lowered.num_chunks
        if not (0 <= t.src < size and 0 <= t.dst < size):
            return f"names a member that is not one of 0 to {size - 1}"
        if t.count < 1 or min(t.chunk, t.to) < 0 or max(t.chunk, t.to) + t.count > end:
            return f"goes beyond the line's {end} chunks"
        if t.src == t.dst and abs(t.chunk - t.to) < t.count:
            return "writes what it reads"
        if self.width[t.chunk : t.chunk + t.count] != self.width[t.to : t.to + t.count]:
            return "moves chunks to places of another width"
        return None

    def _move(self, t: Transfer) -> str:
        """Run a transfer, as far as it is valid; return its first error, "" if there is none."""
        self.fault = ""
        sources = self._places(t.src, range(t.chunk, t.chunk + t.count))
        targets = self._places(t.dst, range(t.to, t.to + t.count))
        if t.add:
            self.add(sources, targets)
        else:
            self.copy(sources, targets)
        return self.fault


def _widths(lowered: Lowered) -> list[int]:
    """Return a number for each chunk of a rank's buffer; chunks with the same number have the same size for any number
    of elements."""
    if lowered.kind == "all_reduce":
        widths = list(range(lowered.num_message_chunks))
    else:
        widths = list(range(lowered.parts)) * lowered.size
    every = widths * 2 if lowered.kind == "all_to_all" else list(widths)
    return every + [widths[chunk] for chunk in lowered.like]


def _clash_text(clash: Clash) -> str:
    if (twice := clash.twice) is None:
        return f"adds a part of message chunk {clash.other.chunk} to one of chunk {clash.one.chunk}"
    return f"counts member {twice.members[0]}'s chunk {twice.chunk} twice"


def _held_text(form: Form | None) -> str:
    if not isinstance(form, ChunkSum):
        return "nothing"
    return f"message chunk {form.chunk} of {', '.join(map(str, form.members))}"


def _transfer_text(t: Transfer) -> str:
    verb = "adds" if t.add else "copies"
    return f"{t.src} {verb} {t.count} from {t.chunk} to {t.to} of {t.dst}"


# ── the stored form: JSON, recipes that repeat once, files that are never half-written ──


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    digest: Annotated[str, Rule(lambda text: DIGEST.fullmatch(text) is not None, "64 hexadecimal digits")]
    recipes: tuple[Recipe, ...]
    collectives: tuple[tuple[int, ...], ...]  # per collective, of each group, the recipe's number


def save_lowered(lowered: LoweredSchedule, path: Path) -> None:
    """Write the lowered schedule as JSON (and a newline), atomically. Raises InputError."""
    write_whole(path, to_json(lowered) + "\n")


def load_lowered(path: Path) -> LoweredSchedule:
    """Return the lowered schedule of a file. Raises InputError with the file and the key of the error."""
    where, what = str(path), "lowered schedule"
    form = typed(headed(read_json(path, what), what, FORMAT, VERSION, where), _File, where)
    for number, recipe in enumerate(form.recipes):
        if text := recipe.fault():
            raise InputError(text, where=where, key=("recipes", number))
    for number, groups in enumerate(form.collectives):
        for group, index in enumerate(groups):
            if not 0 <= index < len(form.recipes):
                text = wrong(index, f"one of the {len(form.recipes)} recipes, counted from 0")
                raise InputError(text, where=where, key=("collectives", number, group))
    recipes = tuple(tuple(form.recipes[index] for index in groups) for groups in form.collectives)
    return LoweredSchedule(digest=form.digest, recipes=recipes)


def to_json(lowered: LoweredSchedule) -> str:
    """Return the lowered schedule as canonical JSON: keys sorted, and every recipe once, in the order of its first
    use."""
    number: dict[Recipe, int] = {}
    collectives = [[number.setdefault(recipe, len(number)) for recipe in groups] for groups in lowered.recipes]
    recipes = [asdict(recipe) for recipe in number]
    form = {
        "collectives": collectives,
        "digest": lowered.digest,
        "format": FORMAT,
        "recipes": recipes,
        "version": VERSION,
    }
    return json.dumps(form, sort_keys=True, separators=(",", ":"))
