"""A search over settings that change together: optuna proposes points, and hears what they gave."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from simfrontier.errors import InputError
from simfrontier.records import dataclass

Number = int | float
STARTUP = 10  # points of a search that are drawn at random before any is proposed: optuna's own default


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimension:
    """A setting that a search may change: one of `values` that have no order, each by a number of its own, or a number
    between two ends, equally likely in its logarithm where `is_log`, and whole where both ends are whole numbers."""

    key: str
    values: tuple[int, ...] = ()
    between: tuple[float, float] = (0.0, 0.0)
    is_log: bool = False

    @property
    def is_whole(self) -> bool:
        return all(isinstance(end, int) for end in self.between)


@dataclasses.dataclass(slots=True, kw_only=True, eq=False)
class Search:
    """Points that are asked for and told of in rounds: the same seed and the same results give the same points,
    whoever works them out. `is_most`: whether the most of the result is searched for, or the least."""

    dimensions: Sequence[Dimension]
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

    def put_first(self, settings: Mapping[str, Number]) -> None:
        """A point that is asked for before those that are proposed."""
        self._study.enqueue_trial(dict(settings))

    def ask(self, count: int) -> list[dict[str, Number]]:
        """The next points. Results of all that were asked for before have to be told first."""
        assert not self._asked, "results of the last round are told before the next is asked for"
        space = {each.key: _distribution(each) for each in self.dimensions}
        self._asked = [self._study.ask(space) for _ in range(count)]
        return [dict(trial.params) for trial in self._asked]

    def tell(self, results: Sequence[float | None]) -> None:
        """What the points gave that were last asked for, in their order; None of a point that has no result."""
        failed = _optuna().trial.TrialState.FAIL
        for trial, result in zip(self._asked, results, strict=True):
            if result is None:
                self._study.tell(trial, state=failed)
            else:
                self._study.tell(trial, result)
        self._asked = []


def _distribution(dimension: Dimension) -> Any:
    distributions = _optuna().distributions
    if dimension.values:
        return distributions.CategoricalDistribution(dimension.values)
    low, high = dimension.between
    if dimension.is_whole:
        return distributions.IntDistribution(low, high, log=dimension.is_log)
    return distributions.FloatDistribution(low, high, log=dimension.is_log)


def _optuna() -> Any:
    try:
        import optuna
    except ImportError:
        raise InputError(
            "a search takes the package optuna, which is not installed; allowed: pip install 'simfrontier[sweep]'"
        ) from None
    return optuna
