"""Validation of a document, and its conversion to an immutable object; an invalid document gives a one-line error.

The type of the object is a plain frozen dataclass (or a pydantic model) whose annotations say what is allowed. pydantic
checks them, and reports the location, the value and the violated rule of each fault as data. pydantic is imported when
the first file is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Annotated, Any, Final, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ConfigDict, ValidationError, create_model
from pydantic_core import ErrorDetails

from simfrontier.base.errors import InputError, Key, near, shown, technique, unknown_key, wrong
from simfrontier.base.io.forms import SOURCED_KEYS, Derived, Kind, Names, Sourced

T = TypeVar("T")
_BOUNDS: Final[Mapping[str, str]] = {"gt": "more than", "ge": "at least", "lt": "less than", "le": "at most"}
_EXTRA: Final = ("extra_forbidden", "unexpected_keyword_argument", "derived")
_WORDS: Final[Mapping[str, str]] = {  # what each rule allows; the names in braces are pydantic's
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "none_required": "nothing",
    "too_short": "a list of at least {min_length}",
    "too_long": "a list of at most {max_length}",
    "string_too_short": "a text of at least {min_length} characters",
    "string_too_long": "a text of at most {max_length} characters",
    "string_pattern_mismatch": "a text of the pattern {pattern}",
    "json_invalid": "a value that is not nested too deeply",
}


def typed(document: object, form: type[T], where: str = "", key: Key = ()) -> T:
    """Return the object of type `form` that a document (of TOML or JSON) describes. Unknown keys are errors, and types
    are not converted.

    Raises InputError with the file `where`, the location below `key`, the value, and the allowed or nearest values.
    """
    try:
        text = json.dumps(document, ensure_ascii=False).encode()  # so that a list may be a tuple, and nothing else
    except TypeError as error:  # only from Python: no file holds such a value
        raise InputError(f"{error}; allowed: texts, numbers, lists and tables", where=where, key=key) from None
    try:
        return cast(T, _reader(cast(Any, form))(b'{"value":' + text + b"}").value)
    except ValidationError as error:
        raise fault_of(error, form, skipped=1).within(where, key) from None


def checked(values: Mapping[str, Any], form: type[BaseModel], key: Key = ()) -> Any:
    """Return the object of a pydantic model `form` from values that already have the program's own types. Raises
    InputError."""
    try:
        return form.model_validate(values)
    except ValidationError as error:
        raise fault_of(error, form).within(key=key) from None


@cache
def _reader(form: Any) -> Callable[[bytes], Any]:
    config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)
    whole = create_model("Whole", __config__=config, value=(form, ...))
    return whole.model_validate_json


def fault_of(error: ValidationError, form: Any, skipped: int = 0) -> InputError:
    """Return the first error of a pydantic ValidationError as an InputError; a misspelt key comes before the key that
    is therefore missing. `skipped`: number of leading elements of pydantic's location that are above `form`."""
    given = error.errors(include_url=False)
    faulty = {fault["loc"][:length] for fault in given for length in range(len(fault["loc"]))}  # what holds the places
    faults = [fault for fault in given if fault["loc"] not in faulty]  # a list with a fault in it is not one too few
    faults.sort(key=lambda fault: fault["type"] not in _EXTRA)
    more = counted_more(len({_followed(fault["loc"][skipped:], form)[0] for fault in faults}) - 1)
    key, inner = _followed(faults[0]["loc"][skipped:], form)
    if faults[0]["type"] in _EXTRA or faults[0]["loc"][-1:] == ("[key]",):
        return InputError(unknown_key(str(key[-1]), _keys(_followed(key[:-1], form)[1])) + more, key=key)
    return InputError(_what(faults[0], inner) + more, key=key)


def counted_more(faults: int) -> str:
    """Return a note that there are so many further faults; empty for 0."""
    return f" (and {faults} more fault{'s' if faults > 1 else ''})" if faults else ""


def _what(fault: ErrorDetails, form: Any) -> str:
    got, kind, needed = fault["input"], fault["type"], _needed(form)
    if kind == "missing":
        return f"missing, give {{ {', '.join(needed)} }}" if needed else "missing"
    if needed and kind in ("model_type", "dataclass_type", "dict_type"):
        return wrong(got, f"a table {{ {', '.join(needed)} }}")
    if kind == "said":
        return fault["msg"]
    if kind in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        return wrong(got, _bounds(form, fault.get("ctx", {})))
    context = {
        name: f"{value:g}" if isinstance(value, float) else value for name, value in fault.get("ctx", {}).items()
    }
    if kind == "literal_error" and (choices := _choices(form)):
        *before, last = map(shown, choices)
        text = wrong(got, f"{', '.join(before)} or {last}" if before else last)
        close = near(got, choices) if isinstance(got, str) else None
        absent = technique(got) if isinstance(got, str) else None
        hint = absent or (f'did you mean "{close}"?' if close else "")
        return f"{text}; {hint}" if hint else text
    return wrong(got, _WORDS[kind].format_map(context) if kind in _WORDS else fault["msg"])


def _bounds(form: Any, broken: Mapping[str, Any]) -> str:
    """Return the lower and upper bound of a number in words; only the violated bound if the type declares none."""
    ends = dict(each for mark in _marks(form, object) for each in _ends(mark)) or broken
    numbers = {name: f"{end:g}" if isinstance(end, float) else end for name, end in ends.items()}
    return " and ".join(f"{words} {numbers[name]}" for name, words in _BOUNDS.items() if name in numbers)


def _ends(mark: object) -> Iterator[tuple[str, Any]]:
    for name in _BOUNDS:
        if (end := getattr(mark, name, None)) is not None:
            yield name, end


def _needed(form: Any) -> tuple[str, ...]:
    """Return the required keys of a table type; all keys if none is required."""
    form, keys = _bare(form), _keys(form)
    if form is Sourced:
        return SOURCED_KEYS
    if is_dataclass(form):
        of = {each.name: each for each in fields(form)}
        required = [key for key in keys if of[key].default is MISSING and of[key].default_factory is MISSING]
    else:
        required = [
            key for key in keys if key in getattr(form, "model_fields", {}) and form.model_fields[key].is_required()
        ]
    return tuple(required) or keys


def _keys(form: Any) -> tuple[str, ...]:
    """Return the allowed keys of a table type."""
    form = _bare(form)
    if form is Sourced:
        return (*SOURCED_KEYS, "low", "high")
    if is_dataclass(form):
        types = get_type_hints(form, include_extras=True)
        return tuple(each.name for each in fields(form) if not _marks(types[each.name], Derived))
    if get_origin(form) in (dict, Mapping) and (names := _marks(get_args(form)[0], Names)):
        return names[0].names
    return tuple(getattr(form, "model_fields", ()))


def _choices(form: Any) -> tuple[str, ...]:
    if names := _marks(form, Names):
        return names[0].names
    return tuple(each for each in get_args(_bare(form)) if isinstance(each, str))


def _marks(form: Any, mark: type[T]) -> list[T]:
    return [each for each in getattr(form, "__metadata__", ()) if isinstance(each, mark)]


def _alternatives(form: Any) -> list[Any]:
    if get_origin(form) is Annotated and get_origin(form.__origin__) in (Union, UnionType):
        form = form.__origin__
    if get_origin(form) not in (Union, UnionType):
        return [form]
    return [part for part in get_args(form) if part is not type(None)]


def _bare(form: Any) -> Any:
    """Return a type without `None` as an alternative and without bounds; `Sourced` if it has that annotation."""
    (form, *_) = _alternatives(form)
    if _marks(form, Sourced):
        return Sourced
    return _bare(form.__origin__) if get_origin(form) is Annotated else form


def _number(form: Any) -> Any:
    """Return the type of the number in a table of value and source."""
    (form, *_) = _alternatives(form)
    return Annotated[
        (form.__origin__, *(mark for mark in form.__metadata__ if not isinstance(mark, Sourced)), "number")
    ]


def _followed(location: Key, form: Any) -> tuple[Key, Any]:
    """Return the key in the file that a pydantic location means, and the type that belongs there. It walks down field
    by field through tables, and value by value through dicts and lists; extra elements of pydantic's location, for
    faulty keys and for the alternative of a union, are skipped."""
    key: list[str | int] = []
    for part in location:
        if len(_alternatives(form)) > 1:
            form = next((each for each in _alternatives(form) if get_args(_bare(each))), None)
            continue
        if part == "[key]":
            continue
        key.append(part)
        if part in _keys(form) and _bare(form) is Sourced:
            form = _number(form) if part in ("value", "low", "high") else Kind if part == "kind" else None
        elif part in _keys(form) and not get_args(_bare(form)):
            form = get_type_hints(_bare(form), include_extras=True)[str(part)]
        else:
            inside = [each for each in get_args(_bare(form)) if each is not Ellipsis]
            form = inside[-1] if inside else None
    return tuple(key), form
