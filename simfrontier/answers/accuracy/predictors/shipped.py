"""The shipped models as one: a prediction for a row of any form, and whether its parameters were fitted to it."""

from __future__ import annotations

from simfrontier.answers.accuracy.predictors.calls import predict_call
from simfrontier.answers.accuracy.predictors.copies import copy_fitted, predict_copy
from simfrontier.answers.accuracy.predictors.fitted_rows import was_fitted
from simfrontier.answers.accuracy.predictors.harness import Harness
from simfrontier.answers.accuracy.predictors.kernels import predict_kernel
from simfrontier.answers.accuracy.predictors.rates import BoundedRate, predict_rate, rate_fitted, training_bound
from simfrontier.answers.accuracy.residual import NotCovered, Prediction
from simfrontier.inputs.measured import CallRow, CopyRow, KernelRow, RateRow, Row


def predict_row(row: Row, harnesses: tuple[Harness, ...] | None = None) -> Prediction | BoundedRate | NotCovered:
    """The time of a row; or the bound that a rate of training must stay below; or why there is neither.

    `harnesses`: those of a user (None: the shipped ones).
    """
    match row:
        case CallRow():
            return predict_call(row, harnesses)
        case CopyRow():
            return predict_copy(row)
        case RateRow():
            return training_bound(row) if row.what == "training" else predict_rate(row)
        case KernelRow():
            return predict_kernel(row)


def row_fitted(row: Row) -> bool:
    """Return whether shipped parameters were fitted to a row."""
    match row:
        case CallRow():
            return was_fitted(row)
        case CopyRow():
            return copy_fitted(row)
        case RateRow():
            return rate_fitted(row)
        case KernelRow():
            return False
