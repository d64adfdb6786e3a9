"""Numbers of machines and stacks that are fitted to whole steps: what they are, what is known of them, and to what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import Field

from simfrontier.answers.accuracy.fitting.parameters import with_number
from simfrontier.base.io import Strict, Text, read_toml, typed

if TYPE_CHECKING:
    from simfrontier.answers.accuracy.published_runs.step import JobStep

PARAMETERS: Final = Path(__file__).parent / "parameters.toml"


class Parameter(Strict):
    """One number of a machine or a library (dotted `key` of `JobStep`), the same for jobs on these machines and stacks
    (None: all). What is known without the steps: `prior`, of the first machine, give or take `prior_sd` of its natural
    logarithm, and from where (`source`).
    """

    name: Text
    key: Text
    machines: tuple[str, ...] | None = None
    stacks: tuple[str, ...] | None = None
    prior: Annotated[float, Field(gt=0)]
    prior_sd: Annotated[float, Field(gt=0)]
    source: Text

    def applies(self, step: JobStep) -> bool:
        """Return whether the job has this number."""
        file = step.job.scenario.file
        return (
            (self.machines is None or file.machine.name in self.machines)
            and (self.stacks is None or file.stack in self.stacks)
            and self.of(step) is not None
        )

    def of(self, step: JobStep) -> float | None:
        """The number of a step's machine or library; None where it has none."""
        here: Any = step
        for name in self.key.split("."):
            here = here.get(name) if isinstance(here, Mapping) else getattr(here, name)
            if here is None:
                return None
        return float(here) or None


def step_s(step: JobStep, parameters: Sequence[Parameter], factors: Sequence[float]) -> float:
    """Seconds of the step with these numbers times these factors, where it has them."""
    machine, library = step.machine, step.library
    for parameter, factor in zip(parameters, factors, strict=True):
        now = parameter.of(step) if factor != 1.0 and parameter.applies(step) else None
        if now is None:
            continue
        root, *path = parameter.key.split(".")
        if root == "library":
            library = with_number(library, path, now * factor)
        else:
            machine = with_number(machine, path, now * factor)
    return step.on(machine, None if library is step.library else library).step_s


class ParametersFile(Strict):
    """`spread`: standard deviation of the natural logarithm of steps around the fit, of runs that it has not seen."""

    spread: Annotated[float, Field(gt=0)]
    parameters: list[Parameter]


def mean_step_error() -> float:
    """The mean error of a step of a run that the fit has not seen, relative: of normal errors sqrt(2 / pi) times their
    standard deviation."""
    return load_parameters().spread * math.sqrt(2.0 / math.pi)


@cache
def load_parameters(path: Path = PARAMETERS) -> ParametersFile:
    """The file of parameters. Raises InputError."""
    return typed(read_toml(path, "parameters"), ParametersFile, str(path))
