"""Fits the numbers of `simfrontier/runs/parameters.toml` to all shipped runs and prints what their files are to say."""

from __future__ import annotations

import sys

from simfrontier.runs import load_parameters, read_runs
from simfrontier.runs.fit import refitted
from simfrontier.runs.validation import measured_s, steps_of


def main() -> None:
    steps, _ = steps_of(read_runs())
    parameters = load_parameters().parameters
    factors = refitted(steps, [measured_s(step) for step in steps], parameters)
    for parameter, factor in zip(parameters, factors, strict=True):
        have = dict.fromkeys(parameter.of(step) for step in steps if parameter.applies(step))
        then = ", ".join(f"{now:.4g} → {now * factor:.4g}" for now in have if now is not None)
        sys.stdout.write(f"{parameter.name} ({parameter.key}): {then}\n")


if __name__ == "__main__":
    main()
