"""Fields of a job's configuration file, taken one by one as keys of a scenario by a table of the file's format."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Never

from simfrontier.base.errors import InputError, shown, wrong
from simfrontier.base.io import flat
from simfrontier.inputs.scenario.parts import OF_EXPERTS

Words = Mapping[Any, Any] | Callable[[Any], Any]
Table = Mapping[str, str | tuple[str, Words]]
"""Key of a scenario by field; with the values in a scenario's words (None: says nothing), or a function of them. Keys
of the job's plan begin with `plan`, those of its plan on the data axes with `data`, numbers of devices with `job`."""
SAYS_NOTHING: Final = (None, "", "auto", "none", "None")  # DeepSpeed's `auto` stands for the trainer's value
NOT: Final[Mapping[Any, Any]] = {True: False, False: True}
IF_TRUE: Final[Mapping[Any, Any]] = {True: True, False: None}
TYPES: Final[Mapping[Any, Any]] = {
    **dict.fromkeys(("bf16", "bfloat16", "torch.bfloat16", "bf16-mixed", "bf16_mixed"), "bf16"),
    **dict.fromkeys(("fp16", "float16", "torch.float16", "16", 16, "16-mixed"), "fp16"),
    **dict.fromkeys(("fp32", "float32", "torch.float32", "32", 32, "32-true"), "fp32"),
}
OPTIMIZERS: Final = {
    **dict.fromkeys(("Adam", "AdamW", "adam", "adamw", "FusedAdam"), "adam"),
    **dict.fromkeys(("Lamb", "lamb", "LAMB"), "lamb"),
    **dict.fromkeys(("Muon", "muon", "dist_muon"), "muon"),
}
GATED: Final = ("swiglu", "geglu", "reglu", "fast-swiglu", "fast-geglu", "fast-reglu", "bilinear", "glu")
"""Activations of MLPs with a gate."""


def if_any(value: float) -> bool | None:
    """Return true for a number or switch that is not 0; None, which says nothing, for 0."""
    return True if value else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Value of a scenario's key. `file` and `field`: where it stands; `words`: the comment that says so; `yields`: a
    default or an assumption, which any other file's value replaces."""

    value: Any
    file: str = ""
    field: str = ""
    words: str = ""
    yields: bool = False

    def size(self) -> int:
        """Return the value as a number of ranks or layers. Raises InputError."""
        if isinstance(self.value, int) and self.value >= 1:
            return self.value
        raise InputError(wrong(self.value, "a whole number of at least 1"), where=self.file, key=(self.field,))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobFile:
    """What a file says: values by key of a scenario, and sentences on what no scenario expresses and on fields that are
    not read."""

    path: Path
    title: str
    found: Mapping[str, Found]
    notes: tuple[str, ...]


class Fields:
    """Fields of one file by dotted name, and what has been taken from them."""

    def __init__(self, path: Path, document: Mapping[str, Any]) -> None:
        self.path, self.left = path, flat(document)
        self.found: dict[str, Found] = {}
        self.not_modelled: list[str] = []

    def take(self, table: Table) -> None:
        """Take all fields that the table has. Raises InputError for a value without words."""
        for field, rule in table.items():
            key, words = rule if isinstance(rule, tuple) else (rule, None)
            value = self.pop(field, words if isinstance(words, Mapping) else ())
            if value is None:
                continue
            self.put(key, value if words is None else self._in_words(field, value, words), field, value)

    def pop(self, field: str, words: Container[Any] = ()) -> Any:
        """Take a field; None if it is absent or says nothing, unless its value is one of `words`."""
        value = self.left.pop(field, None)
        return None if isinstance(value, str | None) and value in SAYS_NOTHING and value not in words else value

    def number(self, field: str) -> int | None:
        """Take a field that is a whole number. Raises InputError."""
        value = self.pop(field)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
            return value
        self.fail(field, wrong(value, "a whole number"))

    def put(self, key: str, value: Any, field: str, got: Any = None) -> None:
        """Record the value of a key, from a field whose value was `got`. Raises InputError if another field of this
        file gives it another value."""
        if value is None:
            return
        known = self.found.get(key)
        if known is not None and known.value != value:
            self.fail(field, f"gives {key} = {shown(value)}, and {known.field} {shown(known.value)}")
        words = f"{self.path.name}: {field}" + ("" if got is None or got == value else f" = {shown(got)}")
        self.found[key] = Found(value=_whole(value), file=str(self.path), field=field, words=words)

    def assume(self, values: Mapping[str, Any], why: str) -> None:
        """Record values of keys that this file leaves open, and that other files may give."""
        for key, value in values.items():
            if key not in self.found:
                self.found[key] = Found(value=value, file=str(self.path), field=key, words=why, yields=True)

    def imply(self, values: Mapping[str, Any], field: str, got: Any) -> None:
        """Record values that follow from a field, for keys that no field of this file gives."""
        for key, value in values.items():
            if key not in self.found:
                self.put(key, value, field, got)

    def drop(self, *keys: str) -> None:
        """Forget the values of keys that mean nothing beside others."""
        for key in keys:
            self.found.pop(key, None)

    def drop_idle(self) -> None:
        """Forget what means nothing for a dense model, or for attention with or without latents."""
        if self.value("model.experts") in (None, 0, 1):
            self.drop("model.experts", *(f"model.{key}" for key in OF_EXPERTS))
            self.drop("plan.dispatch", "plan.expert", "plan.expert_tensor")
        if self.value("model.kv_rank") is None:
            self.drop("model.q_rank", "model.nope_features", "model.rope_features", "model.value_features")
        else:
            self.drop("model.kv_heads", "model.head_dim")

    def value(self, key: str) -> Any:
        """Return the value found for a key; None if there is none."""
        return self.found[key].value if key in self.found else None

    def size(self, key: str) -> int:
        """Return the number of ranks or layers found for a key; 1 if there is none. Raises InputError."""
        return self.found[key].size() if key in self.found else 1

    def leave(self, known: Mapping[str, str]) -> None:
        """Note fields that no scenario expresses, each with its reason, unless they are off."""
        for field, why in known.items():
            value = self.pop(field)
            if value not in (None, False, 0, [], {}):
                self.not_modelled.append(f"{field} = {shown(value)} ({why})")

    def fail(self, field: str, text: str) -> Never:
        raise InputError(text, where=str(self.path), key=(field,))

    def done(self, title: str) -> JobFile:
        """Return what the file says; fields that are left and not off are not read."""
        notes = [f"Not modelled: {self.path.name}: {each}." for each in self.not_modelled]
        if rest := [field for field, value in self.left.items() if value not in (None, False, "", [], {})]:
            notes.append(f"Not read: {self.path.name}: {', '.join(rest)}.")
        return JobFile(path=self.path, title=title, found=self.found, notes=tuple(notes))

    def _in_words(self, field: str, value: Any, words: Words) -> Any:
        if callable(words):
            try:
                return words(value)
            except (ValueError, TypeError, AttributeError, IndexError, OverflowError):
                self.fail(field, wrong(value, "a number"))
        elif isinstance(value, str | int | bool) and value in words:
            return words[value]
        self.fail(field, wrong(value, ", ".join(map(shown, words if isinstance(words, Mapping) else ()))))


def _whole(value: Any) -> Any:
    """Return a number such as 5e8, as JSON files write it, as a whole one."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
