"""The sizes of a shape: its fields that are whole numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

from simfrontier.base.errors import InputError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def sizes_of(shape: DataclassInstance | type[DataclassInstance]) -> tuple[str, ...]:
    """The names of a shape's sizes, in the order in which they are declared."""
    return tuple(each.name for each in fields(shape) if each.type == "int")


def refuse_sizes(name: str, shape: DataclassInstance) -> None:
    """Raise InputError for a size of a model's shape below 1."""
    for key in sizes_of(shape):
        value = getattr(shape, key)
        if value < 1:
            raise InputError(f"model {name}: {key} = {value}; allowed: 1 or more")
