"""The base of forms that are pydantic models: strict, frozen, no unknown keys. Imports pydantic, which takes long."""

from collections.abc import Sequence
from typing import TypeVar, cast

from pydantic import BaseModel, ConfigDict, create_model


class Strict(BaseModel):
    """A table of a file; its fields' types are not converted."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True, defer_build=True)


class External(BaseModel):
    """A table of another program's file: keys that are not read are passed over."""

    model_config = ConfigDict(strict=True, extra="ignore", allow_inf_nan=False, frozen=True, defer_build=True)


Form = TypeVar("Form", bound=Strict)


def extended(form: type[Form], more: Sequence[type[Strict]], name: str, owner: str) -> type[Form]:
    """Return a form that also has the keys of other forms, which are found in it by `isinstance(table, OtherForm)`.
    `name`, `owner`: what the result is called in which module, where pickle finds it."""
    if not more:
        return form
    bases: tuple[type[Strict], ...] = (form, *more)
    made = create_model(name, __base__=bases, __doc__=form.__doc__, __module__=owner)
    return cast("type[Form]", made)
