"""The run of a study into a folder."""

from __future__ import annotations

from pathlib import Path

from simfrontier.answers.sweep.adaptive import Until, refuse_until, sample_until, search_best
from simfrontier.answers.sweep.rounds import Report, Rounds, SweepOutcome
from simfrontier.answers.sweep.study import SweepStudy
from simfrontier.base.workers import Place


def run_sweep(
    study: SweepStudy, folder: Path, place: Place, report: Report = lambda _: None, until: Until | None = None
) -> SweepOutcome:
    """Simulate the points of a study that a folder does not have, and write its data set there; those of a search, and
    with `until` further samples, in rounds.

    Raises InputError for a study without points, one with too many, one that cannot grow until then, and a folder that
    is of something else or cannot be written; StoppedError and LostError where it ends early: what is kept is not
    simulated again."""
    if until is not None:
        refuse_until(study, until)
    with Rounds(folder, place, report) as rounds:
        if study.searched:
            return search_best(study, rounds, until or Until())
        return rounds.run(study) if until is None else sample_until(study, rounds, until)
