"""Published runs as a list: measured and predicted rates per device, found by model and machine."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from simfrontier.answers.accuracy.published_runs.facts import JobFacts
from simfrontier.answers.accuracy.published_runs.left_out import LEFT_OUT, LeftOut, calibration, read_left_out
from simfrontier.answers.accuracy.published_runs.table import Run, shipped_runs
from simfrontier.base.errors import InputError, nearest, shown
from simfrontier.core.machine import document_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A published run of a whole model, with its row of the table of left-out runs: its facts, and its step as a fit
    predicts it that has not seen it. `factor`: from that step to the ends of its 90 % interval.
    """

    run: Run
    row: LeftOut
    factor: float

    @property
    def name(self) -> str:
        """File and line, by which a run is named."""
        return self.row.run

    @property
    def facts(self) -> JobFacts:
        return self.row.facts

    @property
    def model(self) -> str:
        """Name of the model as its source writes it, without sizes."""
        return self.run["model_shape"].split(" L=")[0]


@cache
def listed_runs() -> tuple[ListedRun, ...]:
    """Return all published runs of whole models that have a prediction, in the order of the tables."""
    runs = {run.line: run for run in shipped_runs()}
    return tuple(
        ListedRun(run=runs[row.run], row=row, factor=math.exp(_half_width(row)))
        for row in read_left_out(LEFT_OUT)
        if row.facts.layers > 1
    )


def _half_width(row: LeftOut) -> float:
    return row.sd * _deviations(row.model, row.peak_tflops, row.source)


@cache
def _deviations(model: str, peak_tflops: float, source: str) -> float:
    known = calibration("experts" if model == "experts" else "dense")
    return known.half_width(1.0, peak_tflops * 1e12, without=source)


def find_runs(model: str | None = None, machine: str | None = None) -> tuple[ListedRun, ...]:
    """Return the published runs of a model on a machine, each a name of the catalog, or words of a name in the source
    or in the catalog (of a machine's title, too, which says its devices); None: any. Raises InputError if there are
    none.
    """
    found = [run for run in listed_runs() if model is None or _has(model, run.facts.shape, run.model)]
    if not found:
        raise InputError(_none("model", model, (run.facts.shape for run in listed_runs())))
    on = [run for run in found if machine is None or _has(machine, run.row.machine, _machine_words(run))]
    if not on:
        raise InputError(_none("machine", machine, (run.row.machine for run in found)))
    return tuple(on)


def run_named(name: str) -> ListedRun | None:
    """Return the run of a name (file and line); None if there is none."""
    return next((run for run in listed_runs() if run.name == name), None)


def _has(wanted: str, name: str, words: str) -> bool:
    """Return whether a text is a name of the catalog, or, if no run has such a name, words of it or of others."""
    letters = _letters(wanted)
    if letters in _all_names():
        return letters == _letters(name)
    return letters != "" and _words(letters).search(f"{name}; {words}".lower()) is not None


@cache
def _words(letters: str) -> re.Pattern[str]:
    """Return the pattern of these letters where a word begins, and no number goes on: "7b" is in no 1.7B and no 27B."""
    spaced = "[^a-z0-9]*".join(letters)
    return re.compile(rf"(?<![a-z0-9])(?<!\d\.){spaced}(?!(?<=\d)\d)")


def _machine_words(run: ListedRun) -> str:
    return f"{run.run['machine']}; {_title(run.row.machine)}"


@cache
def _title(machine: str) -> str:
    return str(document_of(machine)["title"])


@cache
def _all_names() -> frozenset[str]:
    return frozenset(_letters(name) for run in listed_runs() for name in (run.facts.shape, run.row.machine) if name)


def _letters(text: str) -> str:
    return re.sub(r"[^a-z0-9]", "", text.lower())


def _none(what: str, wanted: str | None, known: Iterable[str]) -> str:
    names = tuple(sorted({name for name in known if name}))
    return f"{what}: no published run of {shown(wanted)}; {nearest(str(wanted), names)}"


def runs_frame(runs: Sequence[ListedRun]) -> pd.DataFrame:
    """Return runs as a table, a row for each, with the columns that `api.runs` describes."""
    import pandas as pd

    return pd.DataFrame([_record(run) for run in runs])


def _record(run: ListedRun) -> dict[str, object]:
    facts, row = run.facts, run.row
    measured, predicted = map(facts.tokens_per_s_per_device, (row.measured_s, row.predicted_s))
    return {
        "run": run.name,
        "model": run.model,
        "shape": facts.shape,
        "machine": row.machine,
        "stack": row.stack,
        "system": run.run["system"],
        "plan": run.run["plan"],
        "devices": facts.devices,
        "batch": facts.batch,
        "sequence": facts.sequence,
        "precision": facts.precision,
        "tokens_per_s_per_device": measured,
        "tflops_per_device": facts.tflops_per_device(row.measured_s),
        "value": run.run.value,
        "unit": run.run.unit,
        "predicted": predicted,
        "low": predicted / run.factor,
        "high": predicted * run.factor,
        "error": predicted / measured - 1.0,
        "source": run.run["source"] or run.run["system"],
    }
