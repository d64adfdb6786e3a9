"""What the rows of a sweep say: what was swept, the best rows, the Pareto front, and which points a page shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from simfrontier.limits import SWEEP_PAGE_ROWS
from simfrontier.records import dataclass
from simfrontier.report.findings.sweep_columns import (
    ERROR,
    EXPOSED_SHARE,
    KNOWN,
    OF_POINT,
    QUANTITIES,
    Quantity,
    axis_quantities,
    sentence_of,
)
from simfrontier.report.findings.sweep_goal import SweptGoal, swept_goal
from simfrontier.report.findings.sweep_rows import Column, DataSet, Numbers, Rows, Words, data_set_of
from simfrontier.report.findings.swept_study import SweptStudy, study_in
from simfrontier.study import Unit
from simfrontier.sweep import AXIS, REPLAY, RESULTS

if TYPE_CHECKING:
    from simfrontier.arrays import Floats, Ints
    from simfrontier.report.findings.neighbours import Neighbours
    from simfrontier.report.findings.ranks_in_groups import Ranks

PACE: Final = "tokens_per_s"  # what rows of one size are ranked by: the work of a step may differ between points
FRONT: Final = ("peak_memory_bytes", PACE)  # the pair of the first front
FEWEST_HEX: Final = 16  # digits of a digest that a link has
_CHOSEN_BY: Final = ("point", "scenario", "plan", "devices", "fits", "fidelity", ERROR, *FRONT)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptAxis:
    """An axis of the study: its key in a scenario, what it is, and which values points have on it. `values`: texts, or
    the different numbers in ascending order; `is_log`: above zero, and spread by their ratios."""

    key: str
    quantity: Quantity
    sentence: str
    is_whole: bool
    is_log: bool
    values: Floats | tuple[str, ...]

    @property
    def is_ordered(self) -> bool:
        return self.quantity.unit not in ("text", "truth")


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """What could not be run for one reason: how many rows of how many points, and the numbers of the first."""

    reason: str
    num_rows: int
    num_points: int
    examples: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepFindings:
    """A sweep as its page shows it. `rows`: columns of the rows that are shown, whole points in the order of the study;
    `point_of`: for each of them the place of its point among those shown, which `numbers` and `digests` name.

    `num_points`, `num_rows`, `num_unfit` (rows that do not fit in memory), `num_refused` (points all of whose rows
    were refused) and `num_replayed` (rows that were replayed, not simulated) count all of the sweep.
    `best`: rows (of those shown) that are first of their scenario, plan and size, the best sizes' first. `front`: rows
    on the Pareto front of `FRONT` by scenario and size, the least memory first. `within` ranks rows by `PACE` among all
    rows of their scenario, plan and size, `overall` among those of all plans.
    """

    study: SweptStudy
    num_points: int
    num_rows: int
    num_unfit: int
    num_refused: int
    num_replayed: int
    axes: tuple[SweptAxis, ...]
    refused: tuple[Refused, ...]
    rows: Rows
    point_of: Ints
    numbers: Ints
    digests: tuple[str, ...]  # cut, see `short_digests`
    best: tuple[int, ...]
    front: Mapping[tuple[str, int], tuple[int, ...]]
    within: Ranks
    overall: Ranks
    beside: Mapping[str, Neighbours]
    nearest: Ints | None
    goal: SweptGoal | None

    @property
    def scenarios(self) -> tuple[str, ...]:
        """Names in the order of the study."""
        return _in_order(self.rows["scenario"])

    @property
    def plans(self) -> tuple[str, ...]:
        """Names in the order of the scenarios."""
        return _in_order(self.rows["plan"])

    @property
    def sizes(self) -> tuple[int, ...]:
        return tuple(int(value) for value in _different(self.rows["devices"]))

    @property
    def is_thinned(self) -> bool:
        return len(self.numbers) < self.num_points

    def text(self, name: str, row: int) -> str:
        """A text of a row; empty where it has none."""
        column = self.rows[name]
        assert isinstance(column, Words)
        place = int(column.places[row])
        return column.texts[place] if place >= 0 else ""

    def number(self, name: str, row: int) -> float:
        """A number of a row; NaN where it has none."""
        return float(_values(self.rows[name])[row])

    def is_replayed(self, row: int) -> bool:
        """Whether a row was replayed from a simulated step instead of simulated."""
        return self.text("fidelity", row) == REPLAY

    def digest_of(self, row: int) -> str:
        """The begin of the digest of the point of a row, as links have it; empty where there is none."""
        return self.digests[int(self.point_of[row])]

    def number_of_point(self, row: int) -> int:
        """The number of the point of a row in the order of the study."""
        return int(self.numbers[self.point_of[row]])

    def row_of(self, number: int) -> int | None:
        """The first row of the point with this number; None where it is not shown."""
        import numpy as np

        rows = np.flatnonzero(self.numbers[self.point_of] == number)
        return int(rows[0]) if rows.size else None


def sweep_findings(folder: Path, most_rows: int = SWEEP_PAGE_ROWS.most) -> SweepFindings:
    """What is found in the folder of a sweep, of which rows up to `most_rows` are kept. Raises InputError."""
    import numpy as np

    from simfrontier.report.findings.pareto import front_of
    from simfrontier.report.findings.ranks_in_groups import ranks
    from simfrontier.report.findings.thinning import kept_points

    found = data_set_of(folder)
    every = found.read([*_CHOSEN_BY, *(AXIS + key for key in found.axes)])
    all_numbers, point_of = np.unique(_values(every["point"]).astype(np.int64), return_inverse=True)
    point_of = point_of.reshape(-1)
    pace = np.where(_fits(every) == 1, _values(every[PACE]), np.nan)
    sizes = _groups(every, "scenario", "devices")
    within, overall = ranks(pace, _groups(every, "scenario", "devices", "plan")), ranks(pace, sizes)
    memory = _values(every[FRONT[0]])
    fronts = {}
    for size in np.unique(sizes[~np.isnan(pace)]):
        own = np.flatnonzero(sizes == size)
        fronts[int(size)] = own[front_of(memory[own], pace[own], "less", "more")]
    study = study_in(folder, found.manifest)
    axes = _swept(found, every, study.log_axes)
    told = {axis.key: axis.quantity for axis in axes}
    goal = swept_goal(folder, found.manifest, all_numbers.size, told)
    best = np.flatnonzero(all_numbers[point_of] == _best_point(goal))
    wanted = np.concatenate([np.flatnonzero(within.place == 1), best, *fronts.values()])
    kept = kept_points(np.bincount(point_of), point_of[wanted], most_rows)
    shown = np.flatnonzero(np.isin(point_of, kept))
    rows = _shown_rows(found, shown)
    place = np.full(point_of.size, -1)
    place[shown] = np.arange(shown.size)
    points = np.searchsorted(kept, point_of[shown])
    first = np.unique(points, return_index=True)[1]
    beside, near = _beside(axes, rows, first)
    on_page = {size: [int(at) for at in place[front] if at >= 0] for size, front in fronts.items()}
    refused_rows = np.bincount(point_of, _places(every[ERROR]) >= 0)
    return SweepFindings(
        study=study,
        num_points=all_numbers.size,
        num_rows=found.num_rows,
        num_unfit=int(np.count_nonzero(_fits(every) == 0)),
        num_refused=int(np.count_nonzero(refused_rows == np.bincount(point_of))),
        num_replayed=_num_replayed(every["fidelity"]),
        axes=axes,
        refused=_refused(every),
        rows=rows,
        point_of=points,
        numbers=all_numbers[kept],
        digests=short_digests(_digests(rows, first)),
        best=_best(rows, within.at(shown)),
        front={_named(rows, front[0]): tuple(front) for front in on_page.values() if front},
        within=within.at(shown),
        overall=overall.at(shown),
        beside=beside,
        nearest=near,
        goal=goal,
    )


def _best_point(goal: SweptGoal | None) -> int:
    """The number of the best point by the goal; -1 where there is none."""
    at = goal.answer.best_point if goal and goal.answer else None
    return -1 if at is None else at


def short_digests(digests: Sequence[str]) -> tuple[str, ...]:
    """Digests cut to as many digits as tell them apart, and no fewer than a link should have."""
    digits = FEWEST_HEX
    while digits < max(map(len, digests), default=0) and len({each[:digits] for each in digests}) < len(set(digests)):
        digits += 8
    return tuple(each[:digits] for each in digests)


def _num_replayed(fidelity: Column) -> int:
    """How many rows were replayed. `fidelity`: that column of all rows."""
    import numpy as np

    assert isinstance(fidelity, Words)
    if REPLAY not in fidelity.texts:
        return 0
    return int(np.count_nonzero(fidelity.places == fidelity.texts.index(REPLAY)))


def column_quantities(found: SweepFindings) -> dict[str, Quantity]:
    """What is in every column that rows have, by its name: of axes, then of results."""
    axes = {AXIS + axis.key: axis.quantity for axis in found.axes}
    return axes | {name: QUANTITIES[name] for name in ("scenario", *RESULTS, EXPOSED_SHARE, ERROR)}


def _shown_rows(found: DataSet, shown: Ints) -> dict[str, Column]:
    import numpy as np

    names = dict.fromkeys((*OF_POINT, *(AXIS + key for key in found.axes), *KNOWN))
    rows = found.read(list(names), shown)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = _values(rows["exposed_comm_s"]) / _values(rows["step_time_s"])
    return {**rows, EXPOSED_SHARE: Numbers(values=np.where(np.isfinite(share), share, np.nan), is_whole=False)}


def _values(column: Column) -> Floats:
    assert isinstance(column, Numbers)
    return column.values


def _texts(column: Column) -> tuple[str, ...]:
    """Texts that occur."""
    assert isinstance(column, Words)
    return tuple(column.texts[place] for place in sorted(set(column.places.tolist())) if place >= 0)


def _in_order(column: Column) -> tuple[str, ...]:
    """Texts that occur, each where it comes first."""
    assert isinstance(column, Words)
    return tuple(column.texts[place] for place in dict.fromkeys(column.places.tolist()) if place >= 0)


def _different(column: Column) -> Floats:
    import numpy as np

    values = np.unique(_values(column))
    return values[~np.isnan(values)]


def _fits(rows: Rows) -> Ints:
    """1 for rows of plans that fit, 0 for those that do not, which have a memory but no time, -1 for those refused."""
    fits = rows["fits"]
    assert isinstance(fits, Words)
    return fits.places


def _places(column: Column) -> Ints:
    """For each row the place of its value among all values in ascending order; -1 where it has none."""
    import numpy as np

    if isinstance(column, Words):
        return column.places
    known = ~np.isnan(column.values)
    places = np.full(column.values.size, -1)
    places[known] = np.unique(column.values[known], return_inverse=True)[1].reshape(-1)
    return places


def _groups(rows: Rows, *names: str) -> Ints:
    """A number for each row, the same for rows that have the same in these columns."""
    import numpy as np

    groups = np.zeros(_places(rows[names[0]]).size, dtype=np.int64)
    for name in names:
        places = _places(rows[name]) + 1
        groups = groups * (int(places.max()) + 1) + places
        groups = np.unique(groups, return_inverse=True)[1].reshape(-1)
    return groups


def _swept(found: DataSet, rows: Rows, log_axes: frozenset[str]) -> tuple[SweptAxis, ...]:
    columns = {key: rows[AXIS + key] for key in found.axes}
    kinds: dict[str, Unit] = {
        key: "truth" if column.is_truth else "text" for key, column in columns.items() if isinstance(column, Words)
    }
    told = axis_quantities(found.axes, kinds)
    return tuple(
        SweptAxis(
            key=key,
            quantity=told[key],
            sentence=sentence_of(key),
            is_whole=isinstance(column, Numbers) and column.is_whole,
            is_log=key in log_axes and isinstance(column, Numbers) and not bool((column.values <= 0.0).any()),
            values=_texts(column) if isinstance(column, Words) else _different(column),
        )
        for key, column in columns.items()
    )


def _refused(rows: Rows) -> tuple[Refused, ...]:
    """What was refused by its reason, the most frequent first."""
    import numpy as np

    error = rows[ERROR]
    assert isinstance(error, Words)
    numbers = _values(rows["point"]).astype(np.int64)
    order = np.argsort(error.places, kind="stable")
    made = []
    for own in np.split(order, np.flatnonzero(np.diff(error.places[order])) + 1):
        place = int(error.places[own[0]])
        if place >= 0:
            points = np.unique(numbers[own])
            examples = tuple(map(int, points[:3]))
            reason = error.texts[place]
            made.append(Refused(reason=reason, num_rows=own.size, num_points=points.size, examples=examples))
    return tuple(sorted(made, key=lambda each: (-each.num_rows, each.reason)))


def _best(rows: Rows, within: Ranks) -> tuple[int, ...]:
    """The first row of each scenario, plan and size that is the best of them: sizes ascending, the fastest first."""
    import numpy as np

    best = np.flatnonzero(within.place == 1)
    groups = _groups(rows, "scenario", "devices", "plan")[best]
    best = best[np.sort(np.unique(groups, return_index=True)[1])]
    pace = _values(rows[PACE])[best]
    order = np.lexsort((best, -pace, _values(rows["devices"])[best], _places(rows["scenario"])[best]))
    return tuple(int(row) for row in best[order])


def _named(rows: Rows, row: int) -> tuple[str, int]:
    scenario = rows["scenario"]
    assert isinstance(scenario, Words)
    return scenario.texts[scenario.places[row]], int(_values(rows["devices"])[row])


def _digests(rows: Rows, first: Ints) -> tuple[str, ...]:
    digest = rows["digest"]
    assert isinstance(digest, Words)
    return tuple(digest.texts[place] if place >= 0 else "" for place in digest.places[first])


def _beside(axes: Sequence[SweptAxis], rows: Rows, first: Ints) -> tuple[dict[str, Neighbours], Ints | None]:
    """Neighbours of the points on each axis; and the nearest points, where on some axis no point has a neighbour."""
    from simfrontier.report.findings.neighbours import nearest, neighbours

    varied = [axis for axis in axes if len(axis.values) > 1]
    places = [_places(rows[AXIS + axis.key])[first] for axis in varied] + [_places(rows["scenario"])[first]]
    found = {axis.key: neighbours(places, at) for at, axis in enumerate(varied)}
    is_sampled = any((each.less < 0).all() and (each.more < 0).all() for each in found.values())
    wanted = is_sampled and first.size > 1
    return found, nearest(places, [*(axis.is_ordered for axis in varied), False]) if wanted else None
