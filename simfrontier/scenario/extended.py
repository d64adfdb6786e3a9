"""Forms of a scenario's tables with the keys that extras add to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, cast

from pydantic import create_model

from simfrontier.io import Strict
from simfrontier.records import dataclass

if TYPE_CHECKING:
    from simfrontier.machine import Machine
    from simfrontier.scenario.form import ScenarioFile

Form = TypeVar("Form", bound=Strict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioKeys:
    """Tables that an extra adds to scenario files, by its module `scenario_keys`.

    `form`: has them as fields, each with a default. `machine`: the machine that a scenario means by them, out of that
    of its table `machine`. `read`: what they name, from the scenario's folder and checked, for `Scenario.contents`;
    sizes with tables of their own have none. Both raise InputError that names the key.
    """

    form: type[Strict]
    machine: Callable[[ScenarioFile, Machine], Machine] | None = None
    read: Callable[[ScenarioFile, Path], object] | None = None


def extended(form: type[Form], more: Sequence[type[Strict]], name: str, owner: str) -> type[Form]:
    """A form that also has the keys of other forms, which are found in it by `isinstance(table, OtherForm)`. `name`,
    `owner`: what the result is called in which module, where pickle finds it."""
    if not more:
        return form
    bases: tuple[type[Strict], ...] = (form, *more)
    made = create_model(name, __base__=bases, __doc__=form.__doc__, __module__=owner)
    return cast("type[Form]", made)
