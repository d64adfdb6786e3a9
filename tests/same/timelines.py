"""The exact times of the fixed steps: ready, start and end of every op of every rank class, as arrays of float64."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from simfrontier.answers.search import GridSearcher
from simfrontier.answers.study import simulated
from simfrontier.core.engine import SimulatedStep
from simfrontier.inputs.scenario import load_scenario, parse_setting
from tests.same.job import Step, path_of
from tests.same.jobs import STEPS

ROOT = Path(__file__).resolve().parents[2]


def times_of(step: SimulatedStep) -> NDArray[np.float64]:
    """[3, ops of all rank classes one after the other]: ready, start and end in seconds."""
    folding, rows = step.pricing.folding, []
    for cls in range(folding.num_rank_classes):
        view = step.view(cls)
        row, line = view.classes.index(cls), view.timeline
        rows.append(np.stack([line.ready[row], line.start[row], line.end[row]]))
    return np.concatenate(rows, axis=1)


def simulate(step: Step, searcher: GridSearcher) -> SimulatedStep:
    """Simulate one of the fixed steps; schedules that the searcher's shop has built before are used again."""
    scenario = load_scenario(
        ROOT / path_of(step.scenario),
        settings=dict(parse_setting(setting) for setting in step.settings),
        plans=(step.plan,),
        devices=(step.devices,),
    )
    scenario = searcher.complete(scenario)
    built = searcher.schedule_cache.get(scenario, step.plan, step.devices)
    return simulated(scenario, built, step.fidelity, step.exact)  # type: ignore[arg-type]


def arrays() -> Iterator[tuple[str, NDArray[np.float64]]]:
    """(name of the step, its times); where single messages were simulated also the bytes of every link."""
    searcher = GridSearcher()
    for step in STEPS:
        done = simulate(step, searcher)
        yield step.name, times_of(done)
        if done.link_bytes is not None:
            yield f"{step.name}: bytes of links", done.link_bytes


def save(path: Path) -> None:
    """Write the arrays of all fixed steps."""
    np.savez(path, **dict(arrays()))  # type: ignore[arg-type]
