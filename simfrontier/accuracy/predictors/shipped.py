"""The shipped models as one: a prediction for a row of any form, and whether its parameters were fitted to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from simfrontier.accuracy.predictors.calls import CallPredictor, predict_call
from simfrontier.accuracy.predictors.copies import copy_fitted, predict_copy
from simfrontier.accuracy.predictors.fitted_rows import was_fitted
from simfrontier.accuracy.predictors.kernels import predict_kernel
from simfrontier.accuracy.predictors.rates import BoundedRate, predict_rate, rate_fitted, training_bound
from simfrontier.accuracy.residual import NotCovered, Prediction
from simfrontier.measured import CallRow, CopyRow, KernelRow, RateRow
from simfrontier.records import dataclass

if TYPE_CHECKING:
    from simfrontier.accuracy.predictors.harness import Harness
    from simfrontier.measured import Row


@dataclass(frozen=True, slots=True, kw_only=True)
class Models:
    """Models that rows are compared with.

    `predict` gives a time; or the bound that a rate of training must stay below; or why there is neither. `fitted`
    says whether parameters were fitted to the row.
    """

    predict: Callable[[Row], Prediction | BoundedRate | NotCovered]
    fitted: Callable[[Row], bool]


def shipped_models(harnesses: tuple[Harness, ...] | None = None) -> Models:
    """The models with the parameters that simfrontier brings along; `harnesses`: others than those it knows."""
    of_call = predict_call if harnesses is None else CallPredictor(harnesses=harnesses).predict

    def predict(row: Row) -> Prediction | BoundedRate | NotCovered:
        match row:
            case CallRow():
                return of_call(row)
            case CopyRow():
                return predict_copy(row)
            case RateRow():
                return training_bound(row) if row.what == "training" else predict_rate(row)
            case KernelRow():
                return predict_kernel(row)

    return Models(predict=predict, fitted=_fitted)


def _fitted(row: Row) -> bool:
    match row:
        case CallRow():
            return was_fitted(row)
        case CopyRow():
            return copy_fitted(row)
        case RateRow():
            return rate_fitted(row)
        case KernelRow():
            return False
