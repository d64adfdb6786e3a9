"""What is compared: a call of the command line, and a step that is simulated for its exact times."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One call of the command line. `{out}` in an argument stands for the job's own folder, in which it leaves files;
    standard output is kept beside them. `repeats`: how often it runs, so that its CPU seconds are a median."""

    name: str
    arguments: tuple[str, ...]
    repeats: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step that is simulated for its exact times: a plan of a scenario at a size, and how it is simulated."""

    name: str
    scenario: str
    plan: str
    devices: int
    fidelity: str = "flow"
    exact: bool = False
    settings: tuple[str, ...] = ()


def path_of(scenario: str) -> str:
    """Where the scenario of that name is, from the top of the checkout: with the core's, or in the folder of an
    extra."""
    name = f"{scenario}.toml"
    of_extra = ROOT.glob(f"simfrontier_extras/*/scenarios/{name}")
    return next((str(path.relative_to(ROOT)) for path in of_extra), f"scenarios/{name}")


def run(name: str, scenario: str, *more: str, repeats: int = 1) -> Job:
    """A call of `simfrontier run`."""
    return Job(name=name, arguments=("run", path_of(scenario), "--out", "{out}", *more), repeats=repeats)
