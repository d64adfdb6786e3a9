"""The form of a study file: what tables and keys it has and what each may hold (pydantic, strict, nothing extra)."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

from pydantic import ConfigDict, Field

from simfrontier.base.io import Line, Strict, Text
from simfrontier.base.limits import COUNT, LARGEST, Limit

SWEEP_POINTS: Final = Limit(
    most=1_000_000, what="points"
)  # each takes 10 ms to minutes, and some 300 bytes while a study runs

Number = Annotated[float, Field(ge=-LARGEST, le=LARGEST)]
AboveZero = Annotated[float, Field(gt=0, le=LARGEST)]
Count = Annotated[int, Field(ge=1, le=SWEEP_POINTS.most)]
Seed = Annotated[int, Field(ge=0, le=COUNT.most)]
Value = bool | int | float | str | list[bool | int | float | str]
Values = Annotated[list[Value], Field(min_length=1, max_length=SWEEP_POINTS.most)]
Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
DistributionName = Literal["uniform", "log-uniform", "normal", "log-normal", "triangular"]
Method = Literal["latin-hypercube", "random", "sobol", "saltelli"]


class Table(Strict):
    """A table of a study; what stands below a key describes it, for editors too."""

    model_config = ConfigDict(use_attribute_docstrings=True)


class RangeTable(Table):
    """Numbers at equal distances, both ends included: so many, or with a step."""

    __annotations__["from"] = Number  # which is no name of Python's
    to: Number
    """The last number, or the upper bound of all."""
    step: AboveZero | None = None
    """The distance between two."""
    count: Count | None = None
    """The number of values, both ends included."""


class LogRangeTable(Table):
    """Numbers above zero at equal ratios, both ends included."""

    __annotations__["from"] = AboveZero
    to: AboveZero
    """The last number."""
    count: Count
    """The number of values, both ends included."""


class SamplesTable(Table):
    """A distribution: with `count` so many random values of it, which are tried one by one; without it, one of the
    axes that the table `sampling` samples together.

    `uniform` and `log-uniform`: from `low` to `high`. `normal`: `mean` and `sd`. `log-normal`: `median`, and `sd` of
    the natural logarithm. `triangular`: from `low` to `high`, most likely `mode`. A normal or log-normal distribution
    may be cut at `low` and `high`."""

    distribution: DistributionName
    """Which distribution; it says which of the other keys are needed."""
    low: Number | None = None
    """The lowest number."""
    high: Number | None = None
    """The highest number."""
    mean: Number | None = None
    """The mean of a normal distribution."""
    sd: AboveZero | None = None
    """The standard deviation, of a log-normal distribution that of the natural logarithm."""
    median: AboveZero | None = None
    """The median of a log-normal distribution."""
    mode: Number | None = None
    """The likeliest number of a triangular distribution."""
    count: Count | None = None
    """The number of values (default: that of the table `sampling`)."""
    seed: Seed | None = None
    """The seed of the values (default 1)."""


class AxisTable(Table):
    """A key of the scenarios, or several `keys` that move together, and the values that it takes: one of `values`,
    `range`, `log_range`, `samples`, `between`, `among` or, of several keys, `rows`. `among`: values that are equally
    likely, of an axis that is sampled with others or searched over."""

    key: Text | None = None
    """The key of the scenarios that is varied, as --set takes it."""
    keys: Annotated[list[Text], Field(min_length=2)] | None = None
    """Several keys, which move together through `rows`."""
    values: Values | None = None
    """The values, in this order."""
    range: RangeTable | None = None
    """Numbers at equal distances."""
    log_range: LogRangeTable | None = None
    """Numbers at equal ratios."""
    samples: SamplesTable | None = None
    """Random numbers of a distribution."""
    between: Annotated[list[Number], Field(min_length=2, max_length=2)] | None = None
    """The two ends of a number that the table `sampling` samples."""
    scale: Literal["linear", "log"] | None = None
    """Whether the number between the two ends of `between` is equally likely, or its logarithm."""
    among: Values | None = None
    """Values that are equally likely, of an axis that is sampled with others or searched over."""
    rows: Annotated[list[list[Value]], Field(min_length=1, max_length=SWEEP_POINTS.most)] | None = None
    """The values of several keys: a list with a value for each key, for every place of the axis."""


class SamplingTable(Table):
    """How the axes without values of their own are sampled together, and how often. `saltelli`: the points of which
    Sobol' indices are found, in `count` rounds of two points more than there are axes."""

    method: Method = "latin-hypercube"
    """A Latin hypercube, independent random numbers, Sobol' numbers, or points for Sobol' indices."""
    count: Count
    """The number of samples."""
    seed: Seed = 1
    """The seed of the samples."""


class GoalTable(Table):
    """The number of each point that a study is made for: of a plan at a size, a `column` of its results (`against`
    another plan: its ratio to that one's); without a plan the best of all rows of the point. `best`: whether much of
    it is wanted, or little."""

    column: Line
    """A column of numbers of results.csv."""
    plan: Line | None = None
    """The plan whose number it is (default: the best of all)."""
    against: Line | None = None
    """Another plan; the goal is the ratio to its number."""
    devices: Annotated[int, Field(ge=1, le=COUNT.most)] | None = None
    """The size (default: the best of all)."""
    best: Literal["most", "least"] = "most"
    """Whether the greatest number is the best, or the least."""


class SearchTable(Table):
    """A search over all axes at once for the best of the goal, in `points` points (or `--until`). `estimates`: how many
    points, drawn at random, are estimated in closed form before the first is simulated, as `tune` does; the best of
    them are simulated first."""

    points: Count = 100
    """The number of points that are simulated."""
    estimates: Annotated[int, Field(ge=0, le=100_000)] = 256
    """The number of points that are estimated before the first is simulated."""
    seed: Seed = 1
    """The seed of the search."""


class StudyFile(Table):
    """A study: scenarios, the plans of them that are simulated (default: all), settings that all points have, axes, and
    what is left out. `replay`: points that differ in numbers of machine or library alone are answered from one
    simulated step, where the library takes the same algorithms."""

    name: Name
    """The name of the study and of its folder of results."""
    title: Line
    """The title of its page, one line."""
    scenarios: Annotated[list[Text], Field(min_length=1)]
    """Scenario files, relative to the folder of the study; each is run with every combination of the axes."""
    plans: list[Line] = Field(default_factory=list)
    """Plans to simulate, as --plans takes them (default: all of the scenarios)."""
    set: dict[str, Any] = Field(default_factory=dict)
    """Settings of all points: key of a scenario = value. Tables mean dotted keys."""
    fidelity: Literal["analytic", "flow", "chunk"] | None = None
    """The fidelity of all points, instead of the scenarios' own."""
    replay: bool = False
    """Whether points that differ in numbers of the machine alone are answered from one simulated step."""
    axes: list[AxisTable] = Field(default_factory=list)
    """The varied keys. Every combination of the axes' values is a point; the last axis varies fastest."""
    sampling: SamplingTable | None = None
    """How axes without values of their own are sampled together."""
    goal: GoalTable | None = None
    """The number that the study optimises or explains."""
    search: SearchTable | None = None
    """A search over all axes for the best of the goal."""
    filters: list[Text] = Field(default_factory=list)
    """Conditions that a point has to meet, such as training.micro_batch * training.grad_accum <= 8."""
