"""The run of a study: points that its store does not have are simulated, then the data set is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from hashlib import sha256
from pathlib import Path

from simfrontier.errors import InputError, StoppedError
from simfrontier.experiments import Digests, Keyed, Row, RowRunner, simulate
from simfrontier.records import dataclass
from simfrontier.study import NotKeptError, ResultStore, store_in
from simfrontier.sweep.dataset import Counts, refuse_folder, write_dataset
from simfrontier.sweep.replayed import answer, questions
from simfrontier.sweep.study import Point, SweepStudy
from simfrontier.wholefile import ensure_writable
from simfrontier.workers import LostError, PerProcess, Place, Workers


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a sweep is: points that are done, of them those whose rows were there before, and those refused; of all.
    A point of the same digest as one before it is done with that."""

    done: int
    known: int
    refused: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOutcome:
    """What a sweep has made: its folder, what that holds, and points that were there before."""

    folder: Path
    counts: Counts
    known: int


Report = Callable[[Progress], None]


def run_sweep(
    study: SweepStudy,
    folder: Path,
    place: Place,
    report: Report = lambda _: None,
    workers: Workers | None = None,
    runner: PerProcess[RowRunner] | None = None,
) -> SweepOutcome:
    """Simulate the points of a study that a folder does not have, and write its data set there. `workers` and `runner`:
    those that are at work already, for further points of one study. Raises InputError for a study without points, one
    with too many, and a folder that is of something else or cannot be written; StoppedError and LostError where it ends
    early: what is kept is not simulated again."""
    study.refuse_many()
    refuse_folder(folder, study.name)
    ensure_writable(folder)
    digests = _digests(study)
    if not digests:
        raise InputError("no points are left by its filters; allowed: a study with a point", where=study.where)
    with store_in(folder, f"sweep {study.name}") as store:
        known = sum(digest in store for digest in digests)
        new = dict.fromkeys(digest for digest in digests if digest not in store)
        if new:
            run = _Run(study, digests, store, report, known=known, num_new=len(new))
            with nullcontext(workers) if workers is not None else Workers(place) as at_work:
                run.simulate(new, at_work, runner or PerProcess(RowRunner))
        counts = write_dataset(study, digests, store, folder)
    return SweepOutcome(folder=folder, counts=counts, known=known)


def _digests(study: SweepStudy) -> list[str]:
    """The digests of all points."""
    of = Digests()
    digests = [of.of(study.setting_of(point)) for point in study.points()]
    return _of_questions(study, digests) if study.file.replay else digests


def _of_questions(study: SweepStudy, digests: Sequence[str]) -> list[str]:
    """The digests of points that are replayed: an answer depends on all points of its question."""
    out = list(digests)
    for asked in questions(list(study.points())):
        whole = "".join(digests[point.number] for point in asked)
        for point in asked:
            out[point.number] = sha256(f"{digests[point.number]}{whole}".encode()).hexdigest()
    return out


class _Run:
    """The simulation of what is new."""

    def __init__(
        self, study: SweepStudy, digests: Sequence[str], store: ResultStore, report: Report, known: int, num_new: int
    ) -> None:
        self._study, self._digests, self._store, self._report = study, digests, store, report
        self._known, self._done, self._refused = known, len(digests) - num_new, 0

    def simulate(self, new: Mapping[str, None], workers: Workers, runner: PerProcess[RowRunner]) -> None:
        """Simulate the points with these digests. Raises as `run_sweep`."""
        self._tell()
        try:
            if self._study.file.replay:
                for _, rows in workers.as_done(answer, ((runner, asked) for asked in self._asked(new))):
                    self._store.add(rows)
                    self._count({digest: rows[digest] for digest in rows if digest in new})
            else:
                simulate(self._new(new), len(new), self._store, workers, runner, self._count)
        except KeyboardInterrupt as stop:
            raise StoppedError(f"stopped; {self._words()}", stop) from None
        except LostError as error:
            raise type(error)(f"{error}; {self._words()}") from None
        except NotKeptError as error:
            what = f"{error.what} ({self._done:,} of {len(self._digests):,} points)"
            raise NotKeptError(what, where=error.where) from None

    def _new(self, new: Mapping[str, None]) -> Iterator[Keyed]:
        """The first point of each new digest."""
        left = dict(new)
        for point, digest in zip(self._study.points(), self._digests, strict=True):
            if digest in left:
                del left[digest]
                yield digest, self._study.setting_of(point)

    def _asked(self, new: Mapping[str, None]) -> Iterator[tuple[Keyed, ...]]:
        """All points of questions of which a point is new."""
        for asked in questions(list(self._study.points())):
            if any(self._digests[point.number] in new for point in asked):
                yield tuple(self._keyed(point) for point in asked)

    def _keyed(self, point: Point) -> Keyed:
        return self._digests[point.number], self._study.setting_of(point)

    def _count(self, rows: Mapping[str, Sequence[Row]]) -> None:
        self._done += len(rows)
        self._refused += sum(any(row.get("error") is not None for row in each) for each in rows.values())
        self._tell()

    def _tell(self) -> None:
        done = Progress(done=self._done, known=self._known, refused=self._refused, total=len(self._digests))
        self._report(done)

    def _words(self) -> str:
        kept = sum(digest in self._store for digest in self._digests)
        return f"{kept:,} of {len(self._digests):,} points are kept: the same command goes on from there"
