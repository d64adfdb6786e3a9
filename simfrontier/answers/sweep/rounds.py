"""Rounds of a sweep: simulate the points that are not in the store, then write the data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Final, Self

from simfrontier.answers.experiments import Row, RowRunner, question_digests, simulate
from simfrontier.answers.forecast import CASE_S, forecast_run
from simfrontier.answers.study import Digests, Keyed, ResultStore, store_in
from simfrontier.answers.sweep.dataset import Counts, refuse_folder, write_dataset
from simfrontier.answers.sweep.keys import put
from simfrontier.answers.sweep.study import Source, SweepStudy
from simfrontier.base.errors import InputError, SimfrontierError, StoppedError
from simfrontier.base.workers import LostError, PerProcess, Place, Workers
from simfrontier.inputs.scenario import scenario_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Progress of a sweep: number of finished points, how many of them were stored before and how many were refused,
    and the number of all points. A point with the same digest as an earlier one is finished together with it.
    """

    done: int
    known: int
    refused: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome:
    """Outcome of a sweep: the study with all its points, its folder, the counts of its data set, and the number of
    points that were stored before. `ended`: why it ended before the requested precision, as a sentence; empty if it did
    not."""

    study: SweepStudy
    folder: Path
    counts: Counts
    known: int
    ended: str = ""


Report = Callable[[Progress], None]


class Rounds:
    """Context manager for the rounds of a sweep, which share workers and store; each round contains the points of the
    earlier rounds. `most`: number of points at the end, if it is known.
    """

    def __init__(self, folder: Path, place: Place, report: Report) -> None:
        self.folder, self.most = folder, 0
        self._place, self._report, self._opened = place, report, ExitStack()
        self._store: ResultStore | None = None
        self._workers: Workers | None = None  # started where anything is new
        self._runner = PerProcess(RowRunner)
        self._simulated: set[str] = set()  # digests of points that were new
        self._refused = 0  # of them

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def run(self, study: SweepStudy) -> SweepOutcome:
        """Simulate the new points of a study, and write the data set of all its points. Raises as `run_sweep`."""
        study.refuse_many()
        digests = _digests(study)
        if not digests:
            raise InputError("no points are left by its filters; allowed: a study with a point", where=study.where)
        if self._store is None:
            refuse_folder(self.folder, study.name)
            self._store = self._opened.enter_context(store_in(self.folder, f"sweep {study.name}"))
        store = self._store
        left = {digest for digest in digests if digest not in store}
        known = sum(digest not in left and digest not in self._simulated for digest in digests)
        if left:
            self._simulate(study, store, digests, left, known)
        counts = write_dataset(study, digests, store, self.folder)
        return SweepOutcome(study=study, folder=self.folder, counts=counts, known=known)

    def _simulate(
        self, study: SweepStudy, store: ResultStore, digests: Sequence[str], left: set[str], known: int
    ) -> None:
        """Simulate the points whose digests are in `left`."""

        def tell() -> None:
            total = max(self.most, len(digests))
            done = len(digests) - len(left)
            self._report(Progress(done=done, known=known, refused=self._refused, total=total))

        def count(rows: Mapping[str, Sequence[Row]]) -> None:
            left.difference_update(rows)
            self._simulated.update(rows)
            self._refused += sum(any(row.get("error") is not None for row in mine) for mine in rows.values())
            tell()

        if self._workers is None:
            self._workers = self._opened.enter_context(Workers(self._place))
        tell()
        new = _first_of_each(study, digests, set(left))
        try:
            simulate(new, len(left), store, self._workers, self._runner, count, replay=study.file.replay)
        except (KeyboardInterrupt, LostError) as error:
            kept = sum(digest in store for digest in digests)
            goes_on = f"{kept:,} of {len(digests):,} points are kept: the same command resumes"
            if isinstance(error, KeyboardInterrupt):
                raise StoppedError(f"stopped; {goes_on}", error) from None
            raise type(error)(f"{error}; {goes_on}") from None


def _digests(study: SweepStudy) -> list[str]:
    """Return the digests of all points."""
    of = Digests()
    digests = [of.of(study.setting_of(point)) for point in study.points()]
    if study.file.replay:
        return question_digests([*zip(digests, map(study.setting_of, study.points()), strict=True)])
    return digests


def _first_of_each(study: SweepStudy, digests: Sequence[str], left: set[str]) -> Iterator[Keyed]:
    """Yield the first point for each digest in `left`."""
    for point, digest in zip(study.points(), digests, strict=True):
        if digest in left:
            left.remove(digest)
            yield digest, study.setting_of(point)


MOST_POINTS: Final = 16  # of a scenario that are looked at
SPREAD: Final = 0.6180339887498949  # the golden ratio's fraction: its multiples lie evenly, whatever the axes' counts


def seconds_of(study: SweepStudy) -> float:
    """Estimate the CPU seconds of all points of a study before filters, from some points of each scenario."""
    each = study.count // len(study.sources)
    if not each:
        return 0.0
    few = each <= MOST_POINTS
    places = range(each) if few else [int(each * (number * SPREAD % 1.0)) for number in range(MOST_POINTS)]
    return sum(each * fmean(_point_s(study, source, place) for place in places) for source in study.sources.values())


def _point_s(study: SweepStudy, source: Source, place: int) -> float:
    try:
        settings = put({**study.settings, **study.settings_at(place)})
        scenario = scenario_of(source.document, source.path, settings)
        return forecast_run(scenario, study.file.fidelity, vary=False, trouble=False).seconds
    except SimfrontierError:  # it is refused, or not as it is taken here: what any plan takes at the least
        return CASE_S * len(source.scenario.plans) * len(source.scenario.file.run.devices)
