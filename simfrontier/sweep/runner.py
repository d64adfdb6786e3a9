"""The run of a study: points whose rows are not there yet, simulated in batches by workers and kept as they come."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Any

from simfrontier.errors import InputError, StoppedError
from simfrontier.records import dataclass
from simfrontier.simulation import Fidelity
from simfrontier.sweep.columns import Row, result_table
from simfrontier.sweep.dataset import Counts, kept_in, refuse_folder, write_dataset
from simfrontier.sweep.digests import Digests
from simfrontier.sweep.journal import Journal, JournalError, journal_in, not_written, stream_of
from simfrontier.sweep.kept import KeptRows
from simfrontier.sweep.replayed import ReplayRunner, questions
from simfrontier.sweep.rows import PointRunner
from simfrontier.sweep.study import Point, SweepStudy
from simfrontier.wholefile import ensure_writable
from simfrontier.workers import LostError, Place, Workers

MOST_OF_BATCH = 16  # points
MOST_TOGETHER = (
    24  # points of the same schedules that are one batch: what is lost at most of a worker when all is ended
)
WINDOW = 4_096  # points that are held at once, to find those of the same schedules
PARTS = 4  # of what each worker would have of the points that are left: its next batch
_mine: list[PointRunner] = []  # of a worker process


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


@contextmanager
def workers_of(study: SweepStudy, place: Place) -> Iterator[Workers]:
    """Workers that are ready for batches of a study."""
    documents = {path: source.document for path, source in study.sources.items()}
    try:
        with Workers(place, begin_worker, (documents, study.file.fidelity)) as workers:
            yield workers
    finally:
        _mine.clear()  # where this process is the worker


def run_sweep(
    study: SweepStudy,
    folder: Path,
    place: Place,
    report: Report = lambda _: None,
    workers: Workers | None = None,
) -> SweepOutcome:
    """Simulate the points of a study that a folder does not have, and write its data set there. `workers`: those of
    `workers_of` where they are at work already, for further points of one study. Raises InputError for
    a study without points, one with too many, and a folder that is of something else or cannot be written;
    StoppedError and LostError where it ends early: what is kept is not simulated again."""
    study.refuse_many()
    refuse_folder(folder, study.name)
    ensure_writable(folder)
    made = [each for each in (folder, *folder.parents) if not each.exists()]
    digests = _digests(study)
    if not digests:
        raise InputError("no points are left by its filters; allowed: a study with a point", where=study.where)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise not_written(folder, error) from None
    # Rows are looked for by who holds the journal: another process may replace the data set until then.
    with _removed_if_empty(made), journal_in(folder, study.name) as journal:
        kept = kept_in(folder)
        new = _new(digests, kept)
        known = sum(digest.hex() in kept for digest in digests)
        if new:
            run = _Run(study, kept, journal, report, total=len(digests), known=known, new=len(new))
            with nullcontext(workers) if workers is not None else workers_of(study, place) as at_work:
                run.simulate(digests, new, at_work)
        counts = write_dataset(study, digests, kept, folder)
    return SweepOutcome(folder=folder, counts=counts, known=known)


def _digests(study: SweepStudy) -> list[bytes]:
    """The digests of all points."""
    of = Digests(study)
    digests = [bytes.fromhex(of.of(point)) for point in study.points()]
    return _of_questions(study, digests) if study.file.replay else digests


def _new(digests: Sequence[bytes], kept: KeptRows) -> set[int]:
    """The numbers of points that have to be simulated: the first of each digest that is not kept."""
    new: set[int] = set()
    seen: set[bytes] = set()
    for number, digest in enumerate(digests):
        if digest not in seen and digest.hex() not in kept:
            seen.add(digest)
            new.add(number)
    return new


def _of_questions(study: SweepStudy, digests: Sequence[bytes]) -> list[bytes]:
    """The digests of points that are replayed: an answer depends on all points of its question."""
    out = list(digests)
    for asked in questions(list(study.points())):
        whole = sha256(b"".join(digests[point.number] for point in asked)).digest()
        for point in asked:
            out[point.number] = sha256(digests[point.number] + whole).digest()
    return out


@contextmanager
def _removed_if_empty(made: Sequence[Path]) -> Iterator[None]:
    """Folders that were made for nothing are removed."""
    try:
        yield
    except BaseException:
        for place in made:
            with suppress(OSError):  # there is something in it
                place.rmdir()
        raise


class _Run:
    """The simulation of what is new."""

    def __init__(
        self, study: SweepStudy, kept: KeptRows, journal: Journal, report: Report, total: int, known: int, new: int
    ) -> None:
        self._study, self._kept, self._journal, self._report = study, kept, journal, report
        self._total, self._known = total, known
        self._done, self._refused = total - new, 0

    def simulate(self, digests: Sequence[bytes], new: set[int], workers: Workers) -> None:
        """Simulate the new points. Raises as `run_sweep`."""
        self._tell()
        try:
            work: Callable[[Sequence[tuple[Point, str]]], tuple[bytes, list[str], int]]
            if self._study.file.replay:
                work, batches = answer_question, _asked(self._study.points(), digests, new)
            else:
                work, batches = run_batch, batches_of(self._study.points(), digests, new, workers.num_workers)
            for _, (content, rows_of, refused) in workers.as_done(work, ((batch,) for batch in batches)):
                self._keep(content, rows_of, refused)
        except KeyboardInterrupt as stop:
            raise StoppedError(f"stopped; {self._words()}", stop) from None
        except LostError as error:
            raise type(error)(f"{error}; {self._words()}") from None
        except JournalError as error:
            raise JournalError(f"{error.what} ({self._done:,} of {self._total:,} points)", where=error.where) from None

    def _keep(self, content: bytes, digests: Sequence[str], refused: int) -> None:
        place = self._journal.size
        self._journal.add(content)
        self._kept.add_entry(self._journal.path, place, digests)
        self._done += len(set(digests))
        self._refused += refused
        self._tell()

    def _tell(self) -> None:
        self._report(Progress(done=self._done, known=self._known, refused=self._refused, total=self._total))

    def _words(self) -> str:
        return f"{self._done:,} of {self._total:,} points are kept: the same command goes on from there"


def batches_of(
    points: Iterable[Point], digests: Sequence[bytes], new: set[int], num_workers: int
) -> Iterator[tuple[tuple[Point, str], ...]]:
    """New points with their digests. Those that differ in numbers of machine or library alone go together, as they
    share their schedules, which may take longer to make than to simulate. Batches become smaller towards the end, so
    that no worker is waited for long."""
    wanted = (point for point in points if point.number in new)
    windows = iter(lambda: list(islice(wanted, WINDOW)), [])
    left, batch = len(new), list[Point]()
    for alike in (each for window in windows for each in sorted(questions(window), key=len, reverse=True)):
        while alike:
            size = max(1, min(MOST_OF_BATCH, left // (PARTS * num_workers)))
            piece, alike = _cut(alike, size)
            if batch and len(batch) + len(piece) > size:
                yield _with_digests(batch, digests)
                batch = []
            batch += piece
            left -= len(piece)
    if batch:
        yield _with_digests(batch, digests)


def _cut(alike: list[Point], size: int) -> tuple[list[Point], list[Point]]:
    """Points of the same schedules that are done at once, and the others. Few are cut only where little is left."""
    if len(alike) <= MOST_TOGETHER:
        size = len(alike) if size > 1 and len(alike) <= PARTS * size else -(-len(alike) // PARTS)
    return alike[:size], alike[size:]


def _with_digests(batch: Sequence[Point], digests: Sequence[bytes]) -> tuple[tuple[Point, str], ...]:
    return tuple((point, digests[point.number].hex()) for point in batch)


def _asked(points: Iterable[Point], digests: Sequence[bytes], new: set[int]) -> Iterator[tuple[tuple[Point, str], ...]]:
    """All points of questions of which a point is new."""
    for asked in questions(list(points)):
        if any(point.number in new for point in asked):
            yield tuple((point, digests[point.number].hex()) for point in asked)


# ── what workers do ──


def begin_worker(documents: Mapping[str, Mapping[str, Any]], fidelity: Fidelity | None) -> None:
    """Make a process ready for batches of a study."""
    _mine[:] = [PointRunner(documents=documents, fidelity=fidelity)]


def run_batch(batch: Sequence[tuple[Point, str]]) -> tuple[bytes, list[str], int]:
    """The rows of points as the content of a journal's entry, the digest of each row, and how many points were refused
    in part or as a whole."""
    return _content([(_mine[0].rows_of(point), digest) for point, digest in batch])


def answer_question(asked: Sequence[tuple[Point, str]]) -> tuple[bytes, list[str], int]:
    """The same of points that are replayed together."""
    rows = ReplayRunner(_mine[0]).rows_of([point for point, _ in asked])
    return _content([(mine, digest) for mine, (_, digest) in zip(rows, asked, strict=True)])


def _content(rows_of_points: Sequence[tuple[list[Row], str]]) -> tuple[bytes, list[str], int]:
    rows = [row for mine, _ in rows_of_points for row in mine]
    digests = [digest for mine, digest in rows_of_points for _ in mine]
    refused = sum(any(row.get("error") is not None for row in mine) for mine, _ in rows_of_points)
    return stream_of(result_table(digests, rows)), digests, refused
