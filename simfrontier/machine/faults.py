"""One line about what is wrong with the form of a file, out of pydantic's list of errors."""

from types import UnionType
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from simfrontier.errors import nearest

Location = tuple[int | str, ...]
MAX_SHOWN = 40


def one_line(error: ValidationError, model: type[BaseModel]) -> str:
    """`key: got, allowed` of the first fault; a misspelt key goes before the key that it leaves missing."""
    faults = sorted(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return f"{dotted(faults[0]['loc'])}: {_what(faults[0], model)}{more}"


def dotted(location: Location) -> str:
    """`("node", "rings", 0)` is `node.rings[0]`."""
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(".")


def _what(fault: ErrorDetails, model: type[BaseModel]) -> str:
    location, got = fault["loc"], _shown(fault["input"])
    match fault["type"]:
        case "extra_forbidden":
            return f"unknown key, {nearest(str(location[-1]), _keys_at(location[:-1], model))}"
        case "missing":
            needed = _needed_at(location, model)
            return f"missing, give {{ {', '.join(needed)} }}" if needed else "missing"
        case "model_type":
            return f"got {got}, allowed: a table {{ {', '.join(_needed_at(location, model))} }}"
        case "interval" | "pair":
            return fault["msg"]
        case _:
            return f"got {got}, allowed: {fault['msg'].removeprefix('Input should be ')}"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _keys_at(location: Location, model: type[BaseModel]) -> list[str]:
    return _keys(_annotation_at(location, model))


def _needed_at(location: Location, model: type[BaseModel]) -> list[str]:
    """The keys that a table must have there; all of them where it needs none."""
    annotation = _annotation_at(location, model)
    keys = _keys(annotation)
    return [key for key in keys if annotation.model_fields[key].is_required()] or keys


def _keys(annotation: Any) -> list[str]:
    return list(annotation.model_fields) if isinstance(annotation, type) and issubclass(annotation, BaseModel) else []


def _annotation_at(location: Location, model: type[BaseModel]) -> Any:
    """The type that belongs at a location: field by field through models, value by value through dicts and lists."""
    annotation: Any = model
    for part in location:
        if _keys(annotation):
            annotation = annotation.model_fields[part].annotation
            if isinstance(annotation, UnionType):  # an optional table
                annotation = get_args(annotation)[0]
        else:
            inside = [part for part in get_args(annotation) if part is not Ellipsis]
            if not inside:
                return None
            annotation = inside[-1]
    return annotation
