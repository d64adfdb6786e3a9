"""Outline of a schedule as text."""

from simfrontier.core.program import Schedule, render
from tests.conftest import Golden
from tests.core.program.builders import ENGINES, mesh_of, options_of, schedule_of


def small() -> Schedule:
    return schedule_of(options_of("zero-topo"), mesh_of(2, 1, 2), ENGINES["tight"], grad_accum=3)


def test_a_small_schedule_as_text(golden: Golden) -> None:
    golden("zero-topo-outline.txt", render(small(), outline=True))
