"""Findings of a sweep for its page: descriptions of columns, the best row of each plan and size, the Pareto front, the
goal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from simfrontier.answers import sweep as sweeps
from simfrontier.answers.experiments import REPLAY
from simfrontier.answers.study import RESULTS, Column, Unit
from simfrontier.base.errors import InputError, shown
from simfrontier.base.units import has_multiples, unit_of
from simfrontier.inputs.scenario import known_keys
from simfrontier.interfaces.report.phrases import NOTHING, exactly, in_unit, setting

if TYPE_CHECKING:
    import pandas as pd

ERROR: Final = "error"  # why a row was refused
EXPOSED_SHARE: Final = "exposed_share"  # worked out here, of the step's time
_GENERAL: Final = ("machine.overrides.", "library.overrides.", "training.", "engine.", "run.", "model.", "plans.*.")
_UNITS: Final = (".bytes.per.s", ".flops.per.s", ".per.s", ".bytes", ".flops", ".s")  # ends of keys, _ as .
SWEEP_DRAWN: Final = 2_000  # more hide each other; without a GPU these take seconds
Row = Mapping[str, Any]  # cells by the names of their columns
STEP: Final = "step_time_s"
RATE: Final = "tokens_per_s"  # what plans are ranked by: an axis may change the work of a step
MEMORY: Final = "peak_memory_bytes"
TFLOPS: Final = "tflops_per_device"
RESULTS_SHOWN: Final = (STEP, RATE, TFLOPS, EXPOSED_SHARE, MEMORY)
_EXPOSED: Final = "exposed_comm_s"
_OF_ROW: Final = ("point", "scenario", "plan", "devices", "fits", "fidelity", ERROR)
_OF_SIZE: Final = ["scenario", "devices"]


def _column(name: str, title: str, unit: Unit, meaning: str = "") -> Column:
    return Column(name=name, title=title, unit=unit, meaning=meaning, of=None)


QUANTITIES: Final[Mapping[str, Column]] = {
    **{column.name: column for column in RESULTS},
    EXPOSED_SHARE: _column(EXPOSED_SHARE, "exposed, share of the step", "share"),
    ERROR: _column(ERROR, "why it was refused", "text"),
}


def axis_quantities(keys: Iterable[str], kinds: Mapping[str, Unit]) -> dict[str, Column]:
    """Return the description of each axis by key; its title is the last part of the key, or the whole key if two axes
    have the same last part. `kinds`: units of axes whose values are not numbers: text or booleans."""
    keys = list(keys)
    short = [_words(next((key.removeprefix(head) for head in _GENERAL if key.startswith(head)), key)) for key in keys]
    titles = [words if short.count(words) == 1 else _words(key) for key, words in zip(keys, short, strict=True)]
    return {
        key: _column(key, title, kinds.get(key) or _unit(key), _meaning(key))
        for key, title in zip(keys, titles, strict=True)
    }


def _meaning(key: str) -> str:
    """Return the description of a scenario's key, or of a number of a machine or library; empty if the key is
    unknown."""
    parts = key.split(".")
    if parts[0] == "at" and len(parts) > 2:
        parts = parts[2:]
    if parts[0] == "plans" and len(parts) > 2:
        parts = ["plans", "NAME", *parts[2:]]
    known = known_keys().get(".".join(parts))
    if known is not None:
        return known.sentence
    is_override = parts[0] in ("machine", "library") and parts[1:2] == ["overrides"]
    return f"a number of the {parts[0]}'s file" if is_override else ""


def _words(key: str) -> str:
    """Return a key as words without its unit: `host.hook_s` becomes "host hook"."""
    dotted = key.replace("_", ".")
    end = next((end for end in _UNITS if dotted.endswith(end) and dotted != end[1:]), "")
    return key[: len(key) - len(end)].replace("plans.", "").replace(".", " ").replace("_", " ")


def _unit(key: str) -> Unit:
    return unit_of(key) or "number"  # type: ignore[return-value]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptGoal:
    """The goal of a sweep and its answer. `answer`: the content of goal.json, or None if it cannot be shown; then
    `left_out` is the reason. `title` and `unit`: title and unit of the goal's values; `words`: description of the goal;
    `names`: titles of the unknowns by key."""

    answer: sweeps.GoalAnswer | None
    title: str = ""
    unit: Unit = "number"
    words: str = ""
    names: Mapping[str, str]
    left_out: str = ""

    def in_words(self, value: float) -> str:
        """Return a value of the goal as text."""
        return in_unit(value, self.unit)

    @property
    def steps(self) -> Iterator[tuple[int, float, float | None]]:
        """Return the successive best points: point, value, and improvement as a share of the previous best."""
        before = None
        for point, best in enumerate(self.answer.so_far if self.answer else ()):
            if best is not None and best != before:
                yield point, best, abs(best / before - 1.0) if before else None
                before = best


def swept_goal(
    folder: Path, manifest: Mapping[str, Any], num_points: int, axes: Mapping[str, Column]
) -> SweptGoal | None:
    """Return the goal of the data set in a folder; None if it has none. `axes`: description of each axis by key. A goal
    file that cannot be read, or that belongs to other points, is left out; running the same sweep again rewrites it."""
    try:
        answer = sweeps.read_goal(folder)
    except InputError as error:
        return _without(f"cannot be read: {error.outside(str(folder / sweeps.GOAL))}")
    if answer is None:
        return None
    if not sweeps.is_goal_of(answer, manifest, num_points):
        return _without("is of other points than the data set")
    keys = [each.key for each in answer.indices.unknowns] if answer.indices else []
    for key in keys:
        if key not in axes or keys.count(key) > 1:
            return _without(
                f"cannot be read: indices: got the unknown {shown(key)}; allowed: each axis of the data set once"
            )
    column = QUANTITIES[answer.column]
    return SweptGoal(
        answer=answer,
        title="ratio of two plans" if answer.is_ratio else column.title,
        unit="number" if answer.is_ratio else column.unit,
        words=column.title + answer.words.removeprefix(answer.column),
        names=_names(keys, axes),
    )


def _without(why: str) -> SweptGoal:
    return SweptGoal(answer=None, names={}, left_out=why)


def _names(keys: Sequence[str], axes: Mapping[str, Column]) -> dict[str, str]:
    """Return the titles of the unknowns by key; the title is the key itself if two unknowns have the same title."""
    words = {key: axes[key].title for key in keys}
    return words if len(set(words.values())) == len(words) else {key: key for key in keys}


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptAxis:
    """An axis of the study: its key in a scenario, its description, and the distinct values of its points,
    ascending."""

    key: str
    quantity: Column
    values: tuple[str | bool | int | float, ...]

    @property
    def column(self) -> str:
        return sweeps.AXIS + self.key

    def in_words(self, value: Any) -> str:
        """Return a value of the axis as text: 25 GB/s, 4,096, yes."""
        if value != value:  # NaN: a row that has none
            return NOTHING
        if has_multiples(self.quantity.unit):
            return exactly(value, self.quantity.unit)
        if isinstance(value, float):
            value = f"{value:,.0f}" if value.is_integer() else f"{value:,.6g}"
        return f"{setting(value)}\u00a01/s" if self.quantity.unit == "1/s" else setting(value)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SweepFindings:
    """A sweep as its page shows it. `settings`: settings of every point; `rows`: all rows; `ran`: the rows that have a
    rate.

    `best`: for each scenario, plan and size the row with the highest rate, by size, the best first. `fronts`: the
    Pareto front of memory and rate by scenario and size, the least memory first. `refused`: for each reason the number
    of refused rows (`num_rows`) and the numbers of their `points`.
    """

    title: str
    settings: Mapping[str, Any]
    axes: tuple[SweptAxis, ...]
    rows: pd.DataFrame
    ran: pd.DataFrame
    best: pd.DataFrame
    fronts: Mapping[tuple[str, int], pd.DataFrame]
    refused: tuple[Row, ...]
    goal: SweptGoal | None

    @property
    def varied(self) -> list[SweptAxis]:
        """Axes on which points differ."""
        return [axis for axis in self.axes if len(axis.values) > 1]

    @property
    def num_points(self) -> int:
        return int(self.rows["point"].nunique())

    @property
    def num_refused(self) -> int:
        """Number of points all of whose rows were refused."""
        return int(self.rows[ERROR].notna().groupby(self.rows["point"]).all().sum())

    @property
    def num_unfit(self) -> int:
        return int(self.rows["fits"].eq(False).sum())

    @property
    def num_replayed(self) -> int:
        return int(self.rows["fidelity"].eq(REPLAY).sum())

    def values_of(self, column: str) -> list[Any]:
        """Return the distinct values of a column in the order of the rows that ran."""
        return list(self.ran[column].unique().tolist())

    def size_name(self, size: tuple[str, int]) -> str:
        """Return the number of devices as text, with the name of the scenario if there are several scenarios."""
        scenario, devices = size
        return f"{scenario}, {devices:,} devices" if len(self.values_of("scenario")) > 1 else f"{devices:,} devices"

    def rows_to_draw(self) -> pd.DataFrame:
        """Return the rows for the charts: the best rows, the rows on a Pareto front, and `SWEEP_DRAWN` random rows, the
        same in each call."""
        some = self.ran.sample(SWEEP_DRAWN, random_state=0) if len(self.ran) > SWEEP_DRAWN else self.ran
        kept = some.index.union(self.best.index)
        for front in self.fronts.values():
            kept = kept.union(front.index)
        return self.ran.loc[kept]

    def settings_of(self, row: Row, plan: str | None = None) -> list[str]:
        """Return the settings of a row's point, for the axes that vary: `micro batch 4`. `plan`: leave out the settings
        of other plans."""
        axes = [axis for axis in self.varied if plan is None or sweeps.is_of_plan(axis.key, plan)]
        return [f"{axis.quantity.title} {axis.in_words(row[axis.column])}" for axis in axes]

    def settings_at(self, point: int) -> list[str]:
        """Return the settings of a point, for the axes that vary."""
        rows = self.rows[self.rows["point"] == point].head(1).to_dict("records")
        return self.settings_of(rows[0]) if rows else []


def sweep_findings(folder: Path) -> SweepFindings:
    """Return the findings from the folder of a sweep. Raises InputError if its rows cannot be read."""
    manifest, rows = sweeps.manifest_of(folder), _swept_rows(folder)
    axes = _axes(rows)
    ran = rows[rows["fits"].eq(True) & rows[RATE].notna()].astype({"devices": int})
    best = ran.loc[ran.groupby([*_OF_SIZE, "plan"])[RATE].idxmax()]
    given = manifest.get("set")
    return SweepFindings(
        title=str(manifest.get("title") or manifest["study"]),
        settings=given if isinstance(given, dict) else {},
        axes=axes,
        rows=rows,
        ran=ran,
        best=best.sort_values([*_OF_SIZE, RATE], ascending=[True, True, False], kind="stable"),
        fronts={size: pareto_front(own) for size, own in ran.dropna(subset=[MEMORY]).groupby(_OF_SIZE)},
        refused=_refused(rows),
        goal=swept_goal(folder, manifest, rows["point"].nunique(), {axis.key: axis.quantity for axis in axes}),
    )


def pareto_front(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the Pareto front: the rows for which no other row has both at most their memory and at least their rate,
    with one of the two better; of equal rows the first. The least memory comes first."""
    ordered = rows.sort_values([MEMORY, RATE], ascending=[True, False], kind="stable")
    best_before = ordered[RATE].cummax().shift()
    return ordered[best_before.isna() | (ordered[RATE] > best_before)]


def _axes(rows: pd.DataFrame) -> tuple[SweptAxis, ...]:
    values = {
        name.removeprefix(sweeps.AXIS): tuple(sorted(rows[name].dropna().unique().tolist()))
        for name in rows.columns
        if name.startswith(sweeps.AXIS)
    }
    kinds: dict[str, Literal["text", "truth"]] = {
        key: "text" if isinstance(some[0], str) else "truth"
        for key, some in values.items()
        if some and isinstance(some[0], str | bool)
    }
    quantities = axis_quantities(values, kinds)
    return tuple(SweptAxis(key=key, quantity=quantities[key], values=some) for key, some in values.items())


def _refused(rows: pd.DataFrame) -> tuple[Row, ...]:
    """Return the refused rows grouped by reason, the most frequent reason first."""
    made = [
        {"reason": str(reason), "num_rows": len(own), "points": tuple(own["point"].unique().tolist())}
        for reason, own in rows.groupby(ERROR)
    ]
    return tuple(sorted(made, key=lambda each: (-each["num_rows"], each["reason"])))


def _swept_rows(folder: Path) -> pd.DataFrame:
    """Return the rows of a data set in the order of its points: point number and plan, a column for each axis, and
    `RESULTS_SHOWN`; NaN or None for missing values. Raises InputError if there are no rows, or they cannot be read."""
    import numpy as np

    rows = sweeps.read_rows(folder, (*_OF_ROW, STEP, RATE, TFLOPS, _EXPOSED, MEMORY)).to_pandas()
    if rows.empty:
        raise InputError("has no rows; allowed: a folder of simfrontier sweep", where=str(folder / sweeps.ROWS))
    floats = rows.select_dtypes("float")
    rows[floats.columns] = floats.where(np.isfinite(floats))
    rows[EXPOSED_SHARE] = rows[_EXPOSED] / rows[STEP]
    return rows.drop(columns=_EXPOSED)
