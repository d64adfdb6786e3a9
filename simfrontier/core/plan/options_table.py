"""Options of a plan read from a table, and written as one: TOML's arrays as tuples, texts of codecs as codecs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

from simfrontier.base.errors import InputError, Key, shown, unknown, wrong
from simfrontier.base.io import checked
from simfrontier.core.codecs import Codec
from simfrontier.core.plan.compression import written
from simfrontier.core.plan.options import Options, codec_of
from simfrontier.core.plan.zero import LatticeOptions

AXES_KEYS = ("weight", "accumulator", "optimizer", "copy_axes", "nesting", "axes", "shard", "secondary")


def read_options(form: type[Options], table: Mapping[str, Any], place: Key, axes: tuple[str, ...]) -> Options:
    """The options of a form that a table means, at `place` of a file, over the mesh's `axes`. Raises InputError."""
    options: Options = checked(_prepared(dict(table), place, axes), form, place)
    if isinstance(options, LatticeOptions):
        _refuse_outside_nesting(options, place)
    return options


def table_of(options: BaseModel) -> dict[str, Any]:
    """The table that reads as these options: the keys that were given."""
    given = options.model_fields_set
    return {key: _as_table(getattr(options, key)) for key in type(options).model_fields if key in given}


def _as_table(value: Any) -> Any:
    match value:
        case BaseModel():
            return table_of(value)
        case tuple() | list():
            return [_as_table(part) for part in value]
        case Codec():
            return str(value)
    return value


def _prepared(value: Any, place: Key, axes: tuple[str, ...]) -> Any:
    """TOML's arrays as tuples, which frozen options hold, and texts of codecs as codecs; axes must be there, once."""
    key = str(place[-1]) if place else ""
    if key == "compression":
        try:
            return written(value)
        except InputError as error:
            raise error.within(key=place) from None
    match value:
        case dict():
            return {name: _prepared(part, (*place, name), axes) for name, part in value.items()}
        case list() | tuple():
            if key in AXES_KEYS:
                _refuse_axes(value, place, axes)
            return tuple(_prepared(part, (*place, number), axes) for number, part in enumerate(value))
        case _ if key.endswith("codec"):
            if isinstance(value, Codec):
                return value
            if not isinstance(value, str):
                raise InputError(wrong(value, 'a codec, such as "fp16" or "int8:6144"'), key=place)
            try:
                return codec_of(value)
            except InputError as error:
                raise error.within(key=place) from None
    return value


def _refuse_axes(names: list[Any] | tuple[Any, ...], place: Key, axes: tuple[str, ...]) -> None:
    for name in names:
        if name not in axes:
            raise InputError(unknown(name, axes), key=place)
        if names.count(name) > 1:
            raise InputError(f"got {shown(name)} twice, allowed: every axis once", key=place)


def _refuse_outside_nesting(options: LatticeOptions, place: Key) -> None:
    if options.nesting is None:
        return
    for key in ("weight", "accumulator", "optimizer", "copy_axes"):
        outside = [axis for axis in getattr(options, key) or () if axis not in options.nesting]
        if outside:
            text = f"axes of nesting: {', '.join(options.nesting)}"
            raise InputError(wrong(outside[0], text), key=(*place, key))
