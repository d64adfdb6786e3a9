"""Simulate settings, each once, and keep their rows; the rows are the table of results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simfrontier.answers.experiments.digests import Digests, Keyed, Setting, batches_of
from simfrontier.answers.experiments.replay import ReplayRunner, questions
from simfrontier.answers.experiments.row_runner import Row, RowRunner
from simfrontier.answers.study import RESULTS, ResultStore
from simfrontier.base.workers import HERE, PerProcess, Workers

if TYPE_CHECKING:
    import pandas as pd

Done = Callable[[Mapping[str, Sequence[Row]]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """The rows of settings, in their order."""

    rows: tuple[tuple[Row, ...], ...]

    def frame(self) -> pd.DataFrame:
        """Return one table: a row for each setting, plan and size, with the number of its `setting`, the columns of
        results and `error`; NaN where it has no such number."""
        import pandas as pd

        columns = ["setting", *(column.name for column in RESULTS), "error"]
        rows = [{"setting": number, **row} for number, mine in enumerate(self.rows) for row in mine]
        table = pd.DataFrame(rows, columns=columns)
        for column in RESULTS:
            if column.is_number:
                table[column.name] = pd.to_numeric(table[column.name], errors="coerce")
        return table


def run(
    settings: Sequence[Setting],
    workers: Workers | None = None,
    runner: PerProcess[RowRunner] | None = None,
    done: Done = lambda _: None,
) -> Results:
    """Simulate settings. `workers`: who does it (None: this process), with a `runner` each; `done` hears of each
    batch: its rows by digest."""
    digests = Digests()
    keyed = [(digests.of(setting), setting) for setting in settings]
    store = ResultStore()
    simulate(dict(keyed).items(), len(keyed), store, workers, runner, done)
    return Results(rows=tuple(tuple(store.get(key) or ()) for key, _ in keyed))


def simulate(
    settings: Iterable[Keyed],
    count: int,
    store: ResultStore,
    workers: Workers | None = None,
    runner: PerProcess[RowRunner] | None = None,
    done: Done = lambda _: None,
    replay: bool = False,
) -> None:
    """Simulate so many different settings, and add the rows of each to the store under its digest. `replay`: settings
    that differ in numbers of machine or library alone are answered from one simulated step; their digests are those
    of `question_digests`."""
    workers, runner = workers or Workers(HERE), runner or PerProcess(RowRunner)
    batches = questions(settings) if replay else batches_of(settings, count, workers.num_workers)
    calls = ((runner, batch) for batch in batches)
    for _, rows in workers.as_done(_replayed if replay else _rows_of, calls):
        store.add(rows)
        done(rows)


def _rows_of(runner: PerProcess[RowRunner], batch: Sequence[Keyed]) -> dict[str, list[Row]]:
    return {digest: runner.here.rows_of(setting) for digest, setting in batch}


def _replayed(runner: PerProcess[RowRunner], asked: Sequence[Keyed]) -> dict[str, list[Row]]:
    rows = ReplayRunner(runner.here).rows_of([setting for _, setting in asked])
    return {digest: mine for (digest, _), mine in zip(asked, rows, strict=True)}
