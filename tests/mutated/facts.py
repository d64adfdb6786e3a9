"""Single changes of a stored schedule: every value in the file becomes another that it could have.

A fact is a place in the file, of a kind: its path without names of tensors and numbers of items (`tensors.dtype`).
Other values are those of the same kind elsewhere in the file, those of a vocabulary, and numbers beside a number.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args

from simfrontier.core.dtypes import DTYPE_BYTES
from simfrontier.core.program.cost import KERNELS
from simfrontier.core.program.ir import Stage, TensorRole
from simfrontier.core.program.names import VIAS
from simfrontier.core.program.store import OP_KINDS

GONE: Final = object()  # the key is removed
CODECS: Final = ("fp64", "fp32", "fp16", "int8:64", "int4:64", "int8:32", "zfp:16")
REFS: Final = tuple(f"ops.{key}.*" for key in ("reads", "writes", "accumulates", "src", "dst", "back_src", "back_dst"))
TABLES: Final = ("tensors", "ops", "roles")  # whose items are tables
PLACED: Final = ("", "flat", "partial(sum)", "partial(max)", "shard(0)", "shard(1)")
WORDS: Final[Mapping[str, Iterable[str]]] = {
    "tensors.dtype": DTYPE_BYTES,
    "tensors.role": get_args(TensorRole),
    "tensors.codec": CODECS,
    "tensors.stage": get_args(Stage),
    "ops.kind": OP_KINDS,
    "ops.codec": CODECS,
    "ops.via": VIAS,
    "ops.kernel": KERNELS,
}
NAMES: Final = ("tensors.shares", "tensors.form_of", "tensors.recomputes", "tensors.follows", "tensors.weight")
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Mutation:
    """One fact of a stored schedule with another value; `kind` groups like facts (`tensors.dtype`)."""

    kind: str
    path: Path
    value: Any

    def __str__(self) -> str:
        value = "(removed)" if self.value is GONE else json.dumps(self.value)[:160]
        return f"{'.'.join(map(str, self.path))} = {value}"

    def of(self, text: str) -> str:
        """The stored text with this one fact changed."""
        form = json.loads(text)
        holder = form
        for key in self.path[:-1]:
            holder = holder[key]
        if self.value is GONE:
            del holder[self.path[-1]]
        else:
            holder[self.path[-1]] = self.value
        return json.dumps(form)


def sampled(text: str, numbers: random.Random, per_kind: int) -> list[Mutation]:
    """So many mutations of every kind of fact that the schedule has, drawn by `numbers`."""
    by_kind: defaultdict[str, list[Mutation]] = defaultdict(list)
    for mutation in _Facts(json.loads(text), numbers).mutations():
        by_kind[mutation.kind].append(mutation)
    return [m for kind in sorted(by_kind) for m in numbers.sample(by_kind[kind], min(per_kind, len(by_kind[kind])))]


class _Facts:
    """The facts of a stored form, and by kind the values that they have."""

    def __init__(self, form: dict[str, Any], numbers: random.Random) -> None:
        self.form, self.numbers = form, numbers
        self.facts = list(_facts(form, (), ""))
        self.seen: defaultdict[str, dict[str, Any]] = defaultdict(dict)
        for kind, words in (*WORDS.items(), *((kind, form["tensors"]) for kind in NAMES)):
            self.seen[kind] = {json.dumps(word): word for word in sorted(words)}
        for _, kind, value in self.facts:
            self.seen[kind].setdefault(json.dumps(value), value)

    def mutations(self) -> Iterator[Mutation]:
        """Some of every fact."""
        for path, kind, value in self.facts:
            for what, other in self._others(kind, value):
                if other is GONE or other != value:
                    yield Mutation(f"{kind}.{what}" if what else kind, path, other)
        for of, tables in (("tensors", self.form["tensors"]), ("ops", dict(enumerate(self.form["ops"])))):
            kinds = [kind for kind in self.seen if kind.startswith(f"{of}.") and kind.count(".") == 1]
            for name, table in tables.items():
                for kind in kinds:
                    key = kind.removeprefix(f"{of}.")
                    if key not in table:
                        yield Mutation(f"{kind}.added", (of, name, key), self._one(kind))
        for name in self.form["tensors"]:
            yield Mutation("tensors.removed", ("tensors", name), GONE)

    def _one(self, kind: str) -> Any:
        """Another value of a kind."""
        return self.numbers.choice(list(self.seen[kind].values()))

    def _others(self, kind: str, value: Any) -> Iterator[tuple[str, Any]]:
        if kind.count(".") == 1:
            yield "gone", GONE
        if isinstance(value, bool):
            yield "", not value
        elif isinstance(value, int):
            yield from (("", other) for other in (value + 1, value - 1, 2 * value, 0))
        elif isinstance(value, str):
            yield from (("", self._one(kind)) for _ in range(2))
            yield from self._placements(value) if kind == "tensors.placement" else ()
            yield from self._refs(value) if kind in REFS else ()
        elif isinstance(value, list):
            yield from self._lists(kind, value)

    def _placements(self, placement: str) -> Iterator[tuple[str, Any]]:
        for axis, _ in self.form["mesh"]:
            parts = [part for part in placement.split() if part != "replicate" and not part.startswith(f"{axis}:")]
            for how in PLACED:
                yield "", " ".join([*parts, f"{axis}:{how}"] if how else parts) or "replicate"

    def _refs(self, name: str) -> Iterator[tuple[str, Any]]:
        for delta in (1, -1):
            yield "layer", [name, delta, 0]
            yield "micro", [name, 0, delta]
        tensors = self.form["tensors"]
        yield "alike", self.numbers.choice([o for o, t in tensors.items() if t["shape"] == tensors[name]["shape"]])

    def _lists(self, kind: str, items: list[Any]) -> Iterator[tuple[str, Any]]:
        """A list with an item dropped, twice, swapped with the next, or replaced: at one place each."""
        if not items:
            return
        i = self.numbers.randrange(len(items))
        yield "dropped", items[:i] + items[i + 1 :]
        yield "twice", [*items[:i], items[i], *items[i:]]
        yield "swapped", [*items[:i], *items[i : i + 2][::-1], *items[i + 2 :]]
        yield "reversed", items[::-1]
        yield "none", []
        if f"{kind}.*" in self.seen:
            yield "replaced", [*items[:i], self._one(f"{kind}.*"), *items[i + 1 :]]


def _facts(value: Any, path: Path, kind: str) -> Iterator[tuple[Path, str, Any]]:
    """Every value within a value, with its place and kind."""
    if len(path) > 1 + (path[0] in TABLES if path else 0):
        yield path, kind, value
    if isinstance(value, dict):
        for key, inner in value.items():
            is_name = path in (("tensors",), ("pools",))
            yield from _facts(inner, (*path, key), kind if is_name else f"{kind}.{key}".strip("."))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from _facts(inner, (*path, i), kind if path in (("ops",), ("roles",)) else f"{kind}.*")
