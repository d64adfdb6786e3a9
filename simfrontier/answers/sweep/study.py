"""A checked study: the scenarios, settings, axes and filters of a study file, and the points that they define."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from simfrontier.answers.experiments import REPLAYED
from simfrontier.answers.study import RESULTS, Setting
from simfrontier.answers.sweep.axes import Axis, SampledAxis, axes_of, refuse_values, searched_axes
from simfrontier.answers.sweep.form import SWEEP_POINTS, StudyFile, Value
from simfrontier.answers.sweep.indices import LEAST_ROUNDS
from simfrontier.answers.sweep.keys import Filter, Settings, parse_filter, put, refuse_unknown, value_of
from simfrontier.base.errors import InputError, Key, nearest
from simfrontier.base.io import flat, read_toml, text_of, toml_of, typed
from simfrontier.inputs.scenario import Scenario, scenario_of, shipped

OF_FILES: Final = ("machine.name", "library.name", "stack")  # keys that name files, whose numbers filters may look at

GOALS: Final = tuple(column.name for column in RESULTS if column.is_number)


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A scenario of a study: its path, its document, and the scenario with the settings that all points share."""

    path: str
    document: Mapping[str, Any]
    scenario: Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A point of a study: its index in the study's order, the path of its scenario, and its settings: those shared by
    all points, then those of the axes.
    """

    number: int
    scenario: str
    settings: Settings


@dataclass(frozen=True, kw_only=True)
class SweepStudy:
    """A checked study. `text`: content of its file; `count`: number of points before filtering, without generating
    them. `searched`: the axes for which a search proposes values; before it does, `axes` hold only the ends of these.
    """

    where: str
    text: str
    file: StudyFile
    sources: Mapping[str, Source]
    settings: Settings
    axes: tuple[Axis, ...]
    filters: tuple[Filter, ...]
    count: int
    searched: tuple[SampledAxis, ...] = ()
    _with_files: dict[str, Scenario] = field(default_factory=dict)  # what `_scenario_of` has read

    @property
    def name(self) -> str:
        return self.file.name

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all axes, in the order of the file."""
        return tuple(key for axis in self.axes for key in axis.keys)

    def points(self) -> Iterator[Point]:
        """Yield the points that pass the filters, in order: scenario by scenario, the last axis varies fastest. Raises
        InputError if a filter cannot be evaluated for a point.
        """
        number = 0
        for source in self.sources.values():
            for place in range(self.count // len(self.sources)):
                settings = {**self.settings, **self.settings_at(place)}
                if self._is_in(source, settings):
                    yield Point(number=number, scenario=source.path, settings=settings)
                    number += 1

    def setting_of(self, point: Point) -> Setting:
        """Return the setting to simulate for a point."""
        return Setting(
            document=self.sources[point.scenario].document,
            where=point.scenario,
            changes=put(point.settings),
            fidelity=self.file.fidelity,
        )

    def with_points(self, rows: Sequence[tuple[Value, ...]]) -> SweepStudy:
        """Return the study of a search with the proposed points: rows of values of its keys."""
        return replace(self, axes=(Axis(keys=self.keys, rows=rows),), count=len(self.sources) * len(rows))

    def with_samples(self, count: int) -> SweepStudy:
        """Return the study with `count` samples; the study must be a sampled one."""
        assert self.file.sampling is not None, "a study that is sampled"
        file = self.file.model_copy(update={"sampling": self.file.sampling.model_copy(update={"count": count})})
        axes = axes_of(file.axes, file.sampling)
        return replace(self, file=file, axes=axes, count=len(self.sources) * math.prod(axis.count for axis in axes))

    def settings_at(self, place: int) -> dict[str, Value]:
        """Return the settings of the axes at an index of their grid; the digits of the index are the indices on each
        axis.
        """
        settings: dict[str, Value] = {}
        for axis in reversed(self.axes):
            place, digit = divmod(place, axis.count)
            settings = dict(zip(axis.keys, axis.rows[digit], strict=True)) | settings
        return settings

    def value_at(self, source: Source, settings: Settings, key: str) -> Any:
        """Return the value of a key at a point: from its settings, from the scenario, or the default. Raises KeyError
        if there is none."""
        return value_of(self._scenario_of(source, settings), settings, key)

    def _scenario_of(self, source: Source, settings: Settings) -> Scenario:
        """Return the scenario with the machine, library and stack of a point; where these are refused, that of the
        study."""
        axes = {key: settings[key] for key in OF_FILES if key in settings and key not in self.settings}
        if not axes:
            return source.scenario
        of = repr((source.path, axes))
        if of not in self._with_files:
            try:
                settings = put({**self.settings, **axes})
                self._with_files[of] = scenario_of(source.document, source.path, settings, laid_out=False)
            except InputError:
                self._with_files[of] = source.scenario
        return self._with_files[of]

    def _is_in(self, source: Source, settings: Settings) -> bool:
        for number, each in enumerate(self.filters):
            try:
                if not each.holds(lambda key: self.value_at(source, settings, key)):
                    return False
            except InputError as error:
                raise error.within(self.where, ("filters", number)) from None
        return True

    def refuse_many(self, told: Callable[[], str] = lambda: "") -> None:
        """Raise InputError if there are more points than the limit; `told`: text added to the message."""
        if fault := SWEEP_POINTS.fault(self.count):
            raise InputError(f"{fault}{told()}", where=self.where)


def load_study(path: str | Path) -> SweepStudy:
    """Read and check a study file (or a shipped study, by its name), its scenarios, and every value of every axis by
    itself.

    Raises InputError: one line that names the file, the key, what was got and what is allowed."""
    path = Path(path)
    path = path if path.is_file() else shipped("studies").get(str(path), path)
    text = text_of(path, "study", "TOML file")
    return study_of(toml_of(text, str(path)), str(path), text)


def study_of(document: Mapping[str, Any], where: str, text: str = "") -> SweepStudy:
    """Check a study document that was read from `where`, and return the study."""
    file = typed(document, StudyFile, where)
    try:
        return _resolved(file, where, text)
    except InputError as error:
        raise error.within(where) from None


def _resolved(file: StudyFile, where: str, text: str) -> SweepStudy:
    settings = flat(file.set)
    for is_fault, place, text in _faults(file):
        if is_fault:
            raise InputError(text, key=place)
    searched = () if file.search is None else searched_axes(file.axes)
    axes = axes_of(file.axes, file.sampling) if file.search is None else tuple(axis.tried() for axis in searched)
    if file.sampling is not None and file.sampling.method == "saltelli" and len(axes) > 1:
        raise InputError("has axes that are not sampled; allowed with saltelli: between, among, samples", key=("axes",))
    for key in (key for axis in axes for key in axis.keys):
        if key in settings:
            raise InputError("is the key of an axis, too; allowed: one of the two", key=("set", key))
    sources = _sources(file, where, settings)
    points = math.prod(axis.count for axis in axes) if file.search is None else file.search.points
    study = SweepStudy(
        where=where,
        text=text,
        file=file,
        sources=sources,
        settings=settings,
        axes=axes,
        filters=tuple(_filters(file)),
        count=len(sources) * points,
        searched=searched,
    )
    for source in sources.values():
        refuse_values(axes, source.document, source.path, settings)
        first = {**settings, **study.settings_at(0)}
        refuse_unknown(study.filters, lambda key, source=source, first=first: study.value_at(source, first, key))  # type: ignore[misc]
    return study


def _faults(file: StudyFile) -> Iterator[tuple[bool, Key, str]]:
    """Yield the rules of a study file: whether the file breaks the rule, the key at fault, and the message."""
    goal, sampling = file.goal, file.sampling
    is_design = sampling is not None and sampling.method == "saltelli"
    if file.search is not None or is_design:
        what, place = ("saltelli", ("sampling", "method")) if is_design else ("search", ("search",))
        yield goal is None, place, f"{what} has no goal; allowed: a study with a table goal"
        yield len(file.scenarios) > 1, ("scenarios",), f"got {len(file.scenarios)}, allowed with {what}: one"
        yield bool(file.filters), ("filters",), f"stand beside {what}; allowed: none"
    if file.search is not None:
        yield sampling is not None, ("sampling",), "stands beside search; allowed: one of the two"
        yield file.replay, ("replay",), "stands beside search; allowed: one of the two"
    if sampling is not None and is_design:
        few = sampling.count < LEAST_ROUNDS or sampling.count & (sampling.count - 1)
        allowed = f"allowed with saltelli: a power of two, {LEAST_ROUNDS} or more"
        yield bool(few), ("sampling", "count"), f"got {sampling.count}, {allowed}"
    if goal is not None:
        place = ("goal", "column")
        yield goal.column not in GOALS, place, f'no column "{goal.column}" of numbers; {nearest(goal.column, GOALS)}'
        replayed = ", ".join(column for column in GOALS if column in REPLAYED)
        is_lost = file.replay and goal.column not in REPLAYED
        yield is_lost, place, f"got {goal.column}, which replayed rows have not; allowed: {replayed}"
        is_alone = goal.against is not None and goal.plan is None
        yield is_alone, ("goal", "against"), "got against without plan; allowed: with plan"


def _filters(file: StudyFile) -> Iterator[Filter]:
    for number, condition in enumerate(file.filters):
        try:
            yield parse_filter(condition)
        except InputError as error:
            raise error.within(key=("filters", number)) from None


def _sources(file: StudyFile, where: str, settings: Settings) -> dict[str, Source]:
    """Return the study's scenarios by their paths, with the settings of all points."""
    sources: dict[str, Source] = {}
    names: dict[str, str] = {}
    for number, name in enumerate(file.scenarios):
        path = str(Path(where).parent / name)
        try:
            source = _source(file, path, settings)
            scenario = source.scenario
            if scenario.name in names:
                text = f'got the name "{scenario.name}" twice, also of {names[scenario.name]}; allowed: different names'
                raise InputError(text, where=path, key=("name",))
        except InputError as error:
            raise error.within(key=("scenarios", number)) from None
        if file.replay and scenario.file.uncertainty.samples:
            allowed = "with uncertainty.samples = 0"
            text = f"answers are nominal steps, those of simulations medians of samples; allowed: {allowed}"
            raise InputError(text, key=("replay",))
        for part in ("plan", "against"):
            plan = getattr(file.goal, part, None)
            if plan is not None and plan not in scenario.plans:
                text = f'no plan "{plan}" in all scenarios; {nearest(plan, scenario.plans)}'
                raise InputError(text, key=("goal", part))
        names[scenario.name], sources[path] = name, source
    return sources


def _source(file: StudyFile, path: str, settings: Settings) -> Source:
    document: Mapping[str, Any] = read_toml(Path(path), "scenario")
    if file.plans:
        document = _of_plans(scenario_of(document, path, plans=tuple(file.plans), laid_out=False).document)
    scenario = scenario_of(document, path, put(settings), laid_out=False)
    return Source(path=path, document=document, scenario=scenario)


def _of_plans(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a document with only the selected plans, without the tables that may compare them with others."""
    return {name: table for name, table in document.items() if name not in ("published", "sensitivity")}
