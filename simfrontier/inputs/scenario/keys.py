"""All keys of a scenario file, each with its allowed values, its default and an explanatory sentence, derived from the
pydantic models."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt, Le, Lt
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from simfrontier.base.extras import PACKAGE, extras
from simfrontier.base.io import read_toml
from simfrontier.core.plan import FAMILIES
from simfrontier.inputs.scenario.added_keys import FileForm
from simfrontier.inputs.scenario.plans import plan_keys

_WORDS = {str: "text", int: "whole number", float: "number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioKey:
    """A key of a scenario file: its dotted `name` (`plans.NAME.key` for a key of plans), its allowed values and its
    default as text (empty: no default, or required), and the families of plans that have the key (empty: not a key of
    plans). `is_whole`: only integers are allowed; `is_list`: only lists."""

    name: str
    allowed: str
    default: str
    sentence: str
    families: tuple[str, ...] = ()
    is_whole: bool = False
    is_list: bool = False


def scenario_keys() -> tuple[ScenarioKey, ...]:
    """Return all keys, in the order of the pydantic models; the keys of plans come last."""
    told = _sentences()
    made = [
        _key(name, kind, metadata, _shown(default), told["keys"].get(name, ""))
        for name, kind, metadata, default in _keys_of(FileForm, "")
    ]
    return (*made, *_keys_of_plans(told["plans"]))


@cache
def known_keys() -> Mapping[str, ScenarioKey]:
    """Return all keys by name."""
    return {key.name: key for key in scenario_keys()}


def _key(
    name: str, kind: Any, metadata: list[Any], default: str, sentence: str, families: tuple[str, ...] = ()
) -> ScenarioKey:
    ways = [get_origin(way) or way for way in _ways(kind) if way is not NoneType]
    return ScenarioKey(
        name=name,
        allowed=words_of(kind, metadata),
        default=default,
        sentence=sentence,
        families=families,
        is_whole=int in ways and float not in ways,
        is_list=bool(ways) and all(way in (list, tuple) for way in ways),
    )


def plan_sentences() -> Mapping[str, str]:
    """Return one sentence on each family of plans: for families registered by users, the first line of the function's
    docstring."""
    told = _sentences()["families"]
    return {name: told.get(name) or (form.__doc__ or "").partition("\n")[0] for name, (form, _) in FAMILIES.items()}


def _keys_of_plans(told: Mapping[str, str]) -> Iterator[ScenarioKey]:
    """Yield the keys of plans; a key that several families have is yielded once."""
    search = told.get("search", "")
    yield ScenarioKey(
        name="plans.NAME.search", allowed="a table", default="", sentence=search, families=tuple(FAMILIES)
    )
    found: dict[str, FieldInfo] = {}
    families: defaultdict[str, list[str]] = defaultdict(list)
    for family, (form, _) in FAMILIES.items():
        for name in plan_keys(family):
            found.setdefault(name, form.model_fields[name])
            families[name].append(family)
    for name, field in found.items():
        default = "the plan's name" if name == "family" else _shown(field.default)
        key, sentence = f"plans.NAME.{name}", told.get(name, "")
        yield _key(key, field.annotation, field.metadata, default, sentence, tuple(families[name]))


def _keys_of(form: type, path: str) -> Iterator[tuple[str, Any, list[Any], Any]]:
    """Yield the keys of a pydantic model, with their types, bounds and defaults."""
    for name, kind, metadata, default in _fields(form):
        inner = _table(kind)
        if inner is None:
            yield path + name, kind, metadata, default
        else:
            yield from _keys_of(inner, f"{path}{name}.")


def _fields(form: type) -> list[tuple[str, Any, list[Any], Any]]:
    if issubclass(form, BaseModel):
        return [(name, field.annotation, field.metadata, field.default) for name, field in form.model_fields.items()]
    assert dataclasses.is_dataclass(form), "the other kind of form"
    hints, missing = get_type_hints(form, include_extras=True), dataclasses.MISSING
    return [
        (each.name, hints[each.name], [], PydanticUndefined if each.default is missing else each.default)
        for each in dataclasses.fields(form)
    ]


def _table(kind: Any) -> type | None:
    """Return the pydantic model of a key whose value is a table; None for other keys."""
    for part in (kind, *(get_args(kind) if get_origin(kind) in (Union, UnionType) else ())):
        if isinstance(part, type) and (issubclass(part, BaseModel) or dataclasses.is_dataclass(part)):
            return part
    return None


def _ways(kind: Any) -> tuple[Any, ...]:
    """Return the alternatives of a union type of a key."""
    if get_origin(kind) is Annotated:
        return _ways(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return tuple(way for part in get_args(kind) for way in _ways(part))
    return (kind,)


def words_of(kind: Any, metadata: list[Any]) -> str:
    """Return the allowed values of a type as text."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return words_of(parts[0], [*metadata, *parts[1:]])
    if origin is Literal:
        return " or ".join(f'"{part}"' if isinstance(part, str) else str(part) for part in parts)
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(words_of(part, []) for part in parts if part is not NoneType))
    if origin in (list, tuple):
        return f"list of {words_of(parts[0], [])}"
    if origin is dict:
        return "table"
    if isinstance(kind, type) and (issubclass(kind, BaseModel) or dataclasses.is_dataclass(kind)):
        return "table"
    if kind not in _WORDS:
        return "codec" if getattr(kind, "__name__", "") == "Codec" else "text"
    return _WORDS[kind] + _bounds(metadata)


def _bounds(metadata: list[Any]) -> str:
    """Return the bounds of a number as text, if they are small enough to be informative."""
    flat = [each for part in metadata for each in (part, *getattr(part, "metadata", ()))]
    low = next((f" from {each.ge}" for each in flat if isinstance(each, Ge)), "")
    low = next((f" above {each.gt}" for each in flat if isinstance(each, Gt)), low)
    high = next((f" to {each.le}" for each in flat if isinstance(each, Le) and float(each.le) < 2**20), "")  # type: ignore[arg-type]
    return low + next((f" below {each.lt}" for each in flat if isinstance(each, Lt)), high)


def _shown(default: Any) -> str:
    if default is PydanticUndefined or default is None or default in ((), ""):
        return ""
    if isinstance(default, bool):
        return "true" if default else "false"
    if isinstance(default, BaseModel):
        return str(getattr(default, "family", ""))
    if isinstance(default, tuple):
        return f"[{', '.join(map(str, default))}]"
    return f"{default:,}" if isinstance(default, int) else str(default)


@cache
def _sentences() -> dict[str, dict[str, str]]:
    """Return the explanatory sentences by key, from the core's file and from those of the extras."""
    files = [Path(__file__).with_name("keys.toml")]
    for name in extras():
        where = import_module(f"{PACKAGE}.{name}").__file__
        assert where is not None, "an extra is a package"
        beside = Path(where).with_name("keys.toml")
        files += [beside] if beside.is_file() else []
    told: dict[str, dict[str, str]] = {"keys": {}, "plans": {}, "families": {}}
    for file in files:
        for table, sentences in read_toml(file, "sentences").items():
            told[table].update(sentences)
    return told
