"""Forms of a scenario's tables with the keys that extras add to them."""

from __future__ import annotations

from typing import TypeVar

from pydantic import create_model

from simfrontier.extras import added
from simfrontier.io import Strict

Form = TypeVar("Form", bound=Strict)


def extended(form: type[Form], module: str, name: str, owner: str) -> type[Form]:
    """A form that also has the keys of the forms that extras add by their module of that name: each key with a default.
    An extra finds them in a table of the form by `isinstance(table, ItsOwnForm)`. `name`, `owner`: what the result is
    called in which module, where pickle finds it."""
    more = added(module, type)
    if not more:
        return form
    return create_model(name, __base__=(form, *more), __doc__=form.__doc__, __module__=owner)
