"""The form of a study file: what tables and keys it has and what each may hold (pydantic, strict, nothing extra)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from simfrontier.io import Line, Strict, Text
from simfrontier.limits import COUNT, LARGEST, SWEEP_POINTS

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
AboveZero = Annotated[float, Field(gt=0, le=LARGEST)]
Count = Annotated[int, Field(ge=1, le=SWEEP_POINTS.most)]
Seed = Annotated[int, Field(ge=0, le=COUNT.most)]
Value = bool | int | float | str | list[bool | int | float | str]
Values = Annotated[list[Value], Field(min_length=1, max_length=SWEEP_POINTS.most)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
DistributionName = Literal["uniform", "log-uniform", "normal", "log-normal", "triangular"]
Method = Literal["latin-hypercube", "random", "sobol", "saltelli"]


class RangeTable(Strict):
    """Numbers at equal distances, both ends included: so many, or with a step."""

    __annotations__["from"] = Number  # which is no name of Python's
    to: Number
    step: AboveZero | None = None
    count: Count | None = None


class LogRangeTable(Strict):
    """Numbers above zero at equal ratios, both ends included."""

    __annotations__["from"] = AboveZero
    to: AboveZero
    count: Count


class SamplesTable(Strict):
    """A distribution: with `count` so many random values of it, which are tried one by one; without it, one of the
    axes that the table `sampling` samples together.

    `uniform` and `log-uniform`: from `low` to `high`. `normal`: `mean` and `sd`. `log-normal`: `median`, and `sd` of
    the natural logarithm. `triangular`: from `low` to `high`, most likely `mode`. A normal or log-normal distribution
    may be cut at `low` and `high`."""

    distribution: DistributionName
    low: Number | None = None
    high: Number | None = None
    mean: Number | None = None
    sd: AboveZero | None = None
    median: AboveZero | None = None
    mode: Number | None = None
    count: Count | None = None
    seed: Seed | None = None


class AxisTable(Strict):
    """A key of the scenarios, or several `keys` that move together, and the values that it takes: one of `values`,
    `range`, `log_range`, `samples`, `between`, `among` or, of several keys, `rows`. `among`: values that are equally
    likely, of an axis that is sampled with others or searched over."""

    key: Text | None = None
    keys: Annotated[list[Text], Field(min_length=2)] | None = None
    values: Values | None = None
    range: RangeTable | None = None
    log_range: LogRangeTable | None = None
    samples: SamplesTable | None = None
    between: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None
    scale: Literal["linear", "log"] | None = None
    among: Values | None = None
    rows: Annotated[list[list[Value]], Field(min_length=1, max_length=SWEEP_POINTS.most)] | None = None


class SamplingTable(Strict):
    """How the axes without values of their own are sampled together, and how often. `saltelli`: the points of which
    Sobol' indices are found, in `count` rounds of two points more than there are axes."""

    method: Method = "latin-hypercube"
    count: Count
    seed: Seed = 1


class GoalTable(Strict):
    """The number of each point that a study is made for: of a plan at a size, a `column` of its results (`against`
    another plan: its ratio to that one's); without a plan the best of all rows of the point. `best`: whether much of
    it is wanted, or little."""

    column: Line
    plan: Line | None = None
    against: Line | None = None
    devices: Annotated[int, Field(ge=1, le=COUNT.most)] | None = None
    best: Literal["most", "least"] = "most"


class SearchTable(Strict):
    """A search over all axes at once for the best of the goal, in `points` points (or `--until`). `estimates`: how many
    points, drawn at random, are estimated in closed form before the first is simulated, as `tune` does; the best of
    them are simulated first."""

    points: Count = 100
    estimates: Annotated[int, Field(ge=0, le=100_000)] = 256
    seed: Seed = 1


class StudyFile(Strict):
    """A study: scenarios, the plans of them that are simulated (default: all), settings that all points have, axes, and
    what is left out. `replay`: points that differ in numbers of machine or library alone are answered from one
    simulated step, where the library takes the same algorithms."""

    name: Name
    title: Line
    scenarios: Annotated[list[Text], Field(min_length=1)]
    plans: list[Line] = Field(default_factory=list)
    set: dict[str, Any] = Field(default_factory=dict)
    fidelity: Literal["analytic", "flow", "chunk"] | None = None
    replay: bool = False
    axes: list[AxisTable] = Field(default_factory=list)
    sampling: SamplingTable | None = None
    goal: GoalTable | None = None
    search: SearchTable | None = None
    filters: list[Text] = Field(default_factory=list)
