"""Fits the numbers of `accuracy/published_runs/parameters.toml` to all shipped runs; prints what files are to say."""

from __future__ import annotations

import sys

from simfrontier.accuracy import Unread, load_parameters, read_runs
from simfrontier.accuracy.published_runs.fit import refitted
from simfrontier.accuracy.published_runs.step import Step, step_of


def shipped_steps() -> list[Step]:
    """The steps of all shipped runs that have one."""
    return [step for step in map(step_of, read_runs()) if not isinstance(step, Unread)]


def main() -> None:
    steps = shipped_steps()
    parameters = load_parameters().parameters
    factors = refitted(steps, [step.timed.measured_s for step in steps], parameters)
    for parameter, factor in zip(parameters, factors, strict=True):
        have = dict.fromkeys(parameter.of(step) for step in steps if parameter.applies(step))
        then = ", ".join(f"{now:.4g} → {now * factor:.4g}" for now in have if now is not None)
        sys.stdout.write(f"{parameter.name} ({parameter.key}): {then}\n")


if __name__ == "__main__":
    main()
