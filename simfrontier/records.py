"""`dataclass` for frozen classes with little work at import: one method is compiled for each class instead of six.

A run imports some 280 of them; to compile what the standard library's decorator writes took a sixth of a short run.
These are dataclasses all the same: `fields`, `replace`, `asdict`, `match` and pickle take them, and they are equal,
hashed, shown and refused to be changed as the standard library's are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(*, frozen: bool, slots: bool = False, kw_only: bool = False, eq: bool = True) -> Callable:
        """As `dataclasses.dataclass`, for frozen classes."""
        assert frozen, "for frozen classes; others are the standard library's"

        def made(cls: type) -> type:
            cls.__doc__ = cls.__doc__ or cls.__name__  # or a signature is written for it
            own = vars(cls)
            init, new_repr, new_eq = "__init__" not in own, "__repr__" not in own, "__eq__" not in own
            new_hash = own.get("__hash__") is None  # which a class with an __eq__ of its own has
            cls = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
            each = dataclasses.fields(cls)
            if init:
                cls.__init__ = _init_of(cls, each)
            if new_repr:
                cls.__repr__ = _repr
            if eq and new_eq:
                cls.__eq__ = _is_equal
            if eq and new_hash:
                cls.__hash__ = _hash
            cls.__compared__ = _getter([field.name for field in each if field.compare])
            cls.__hashed__ = _getter([field.name for field in each if _is_hashed(field)])
            cls.__setattr__, cls.__delattr__ = _refuse_set, _refuse_delete
            if slots:
                cls.__getstate__, cls.__setstate__ = _state_of, _set_state
            return cls

        return made


def _init_of(cls: type, fields: tuple[Field[Any], ...]) -> Callable[..., None]:
    """What sets the fields, in the order of the class's statement."""
    given: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    ordered, named, body = ["self"], list[str](), list[str]()
    for field in fields:
        name = value = field.name
        if field.default is not MISSING:
            given[f"_default_{name}"] = field.default
        if field.default_factory is not MISSING:
            given[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _MISSING else {name}" if field.init else f"_make_{name}()"
        elif not field.init and field.default is MISSING:
            continue
        elif not field.init:
            value = f"_default_{name}"
        if field.init:
            default = f"=_default_{name}" if field.default is not MISSING else ""
            default = "=_MISSING" if field.default_factory is not MISSING else default
            (named if field.kw_only else ordered).append(name + default)
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    parameters = ", ".join([*ordered, *(["*", *named] if named else [])])
    exec("\n".join([f"def __init__({parameters}):", *(body or [" pass"])]), given)
    made: Callable[..., None] = given["__init__"]
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _repr(self: Any) -> str:
    shown = (f"{field.name}={getattr(self, field.name)!r}" for field in dataclasses.fields(self) if field.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _is_equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return self.__compared__(self) == self.__compared__(other)


def _hash(self: Any) -> int:
    return hash(self.__hashed__(self))


def _is_hashed(field: Field[Any]) -> bool:
    return field.compare if field.hash is None else field.hash


def _getter(names: list[str]) -> staticmethod[[Any], Any]:
    return staticmethod(attrgetter(*names) if names else _nothing)


def _nothing(_: Any) -> tuple[()]:
    return ()


def _refuse_set(self: Any, name: str, _: object) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state_of(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
