"""Proposals of a search over axes that change together: optuna asks for points and is told what they gave."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from simfrontier.answers.sweep.axes import SampledAxis, number_of
from simfrontier.answers.sweep.form import Value
from simfrontier.base.errors import InputError

STARTUP: Final = 10  # points of a search that are drawn at random before any is proposed: optuna's own default


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Search:
    """Points that are asked for and told of in rounds: the same seed and the same results give the same points,
    whoever works them out. `is_most`: whether the most of the result is searched for, or the least."""

    axes: Sequence[SampledAxis]
    is_most: bool
    seed: int
    _study: Any = dataclasses.field(init=False)
    _asked: list[Any] = dataclasses.field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        optuna = _optuna()
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        # A tree-structured Parzen estimator that takes settings together, and points that are under way for bad ones.
        sampler = optuna.samplers.TPESampler(
            seed=self.seed, multivariate=True, constant_liar=True, n_startup_trials=STARTUP
        )
        direction = "maximize" if self.is_most else "minimize"
        self._study = optuna.create_study(direction=direction, sampler=sampler)

    def put_first(self, settings: Mapping[str, Value]) -> None:
        """A point that is asked for before those that are proposed."""
        self._study.enqueue_trial(
            {axis.key: axis.among.index(settings[axis.key]) if axis.among else settings[axis.key] for axis in self.axes}
        )

    def ask(self, count: int) -> list[tuple[Value, ...]]:
        """The next points, a value for each axis. Results of all that were asked for before have to be told first."""
        assert not self._asked, "results of the last round are told before the next is asked for"
        space = {axis.key: _distribution(axis) for axis in self.axes}
        self._asked = [self._study.ask(space) for _ in range(count)]
        return [tuple(_value(axis, trial.params[axis.key]) for axis in self.axes) for trial in self._asked]

    def tell(self, results: Sequence[float]) -> None:
        """What the points gave that were last asked for, in their order; nan of a point that has no result."""
        failed = _optuna().trial.TrialState.FAIL
        for trial, result in zip(self._asked, results, strict=True):
            if math.isnan(result):
                self._study.tell(trial, state=failed)
            else:
                self._study.tell(trial, result)
        self._asked = []


def _distribution(axis: SampledAxis) -> Any:
    """What optuna draws from: of values without an order their places."""
    distributions = _optuna().distributions
    if axis.between is None:
        return distributions.CategoricalDistribution(range(len(axis.among)))
    low, high = axis.between
    kind = distributions.IntDistribution if axis.is_whole else distributions.FloatDistribution
    return kind(low, high, log=axis.is_log)


def _value(axis: SampledAxis, drawn: int | float) -> Value:
    return number_of(drawn, axis.is_whole) if axis.between is not None else axis.among[int(drawn)]


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError(
            "a search takes the package optuna, which is not installed; allowed: pip install 'simfrontier[sweep]'"
        ) from None
    return optuna
