"""Common entry point of the shipped models: predict a table row of any kind, and tell whether parameters were fitted to
it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from simfrontier.answers.accuracy.predictors.calls import Harness, predict_call
from simfrontier.answers.accuracy.predictors.copies import copy_fitted, predict_copy
from simfrontier.answers.accuracy.predictors.rates import (
    BoundedRate,
    predict_kernel,
    predict_rate,
    rate_fitted,
    training_bound,
)
from simfrontier.answers.accuracy.predictors.steps import predict_class
from simfrontier.answers.accuracy.residual import NotCovered, Prediction
from simfrontier.inputs.measured import CallRow, ClassRow, CopyRow, KernelRow, RateRow, Row, load_table

Measured = tuple[str, str, int, int, float]  # machine, collective, devices, bytes, seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Tables that the parameters of some libraries were fitted to, with the least bytes of a row. Several libraries
    share most parameters, so that none of them can be refitted alone (`make refit-calls` refits all).
    """

    libraries: tuple[str, ...]
    tables: Mapping[str, int]


TWO_LEVELS: Final = ("hierarchical-mpi-rccl", "hierarchical-mpi-nccl", "hierarchical-nccl-nccl")
FITS: Final = (
    # Below 64 KiB one node's times are those of launching a kernel, which every library file takes from their floor.
    Fit(libraries=("rccl",), tables={"rccl_frontier": 0, "lumi_rccl_one_node": 65536}),
    Fit(libraries=("nccl",), tables={"nccl_perlmutter": 0}),
    *(
        Fit(libraries=(name,), tables={"mpi_and_hierarchical": 0})
        for name in ("cray-mpich", "recursive-halving-mpi4py", *TWO_LEVELS)
    ),
    Fit(libraries=("nccl-ampere", "nccl-hopper", "nccl-blackwell"), tables={"nccl_in_node": 0}),
    Fit(libraries=("nccl-rtx-pro-6000", "nccl-l40s"), tables={"nccl_in_node_pcie": 0}),
)


@lru_cache(maxsize=8)
def fitted_rows(library: str) -> tuple[CallRow, ...]:
    """Return the rows that a library's shipped parameters were fitted to, without known faults."""
    tables = next((each.tables for each in FITS if library in each.libraries), {})
    rows: list[CallRow] = []
    for name, least_bytes in tables.items():
        table = load_table(name)
        rows += [
            row
            for row in table.rows
            if isinstance(row, CallRow) and row.library == library and row.num_bytes >= least_bytes
            if table.pathology_of(row) is None
        ]
    return tuple(rows)


def was_fitted(row: CallRow) -> bool:
    """Return whether the shipped parameters of the row's library were fitted to the row, or to the same measured time
    in another file, or whether a parameter was read off the row.
    """
    return bool(row.read_off) or _measured(row) in _seen(row.library)


@lru_cache(maxsize=8)
def _seen(library: str) -> frozenset[Measured]:
    return frozenset(map(_measured, fitted_rows(library)))


def _measured(row: CallRow) -> Measured:
    return row.machine, row.collective, row.devices, row.num_bytes, row.seconds


def predict_row(row: Row, harnesses: tuple[Harness, ...] | None = None) -> Prediction | BoundedRate | NotCovered:
    """Return the predicted time of a row, the upper bound on a training rate, or the reason why there is neither.

    `harnesses`: those given by the user (None: the shipped ones).
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
        case ClassRow():
            return predict_class(row)


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
        case ClassRow():
            return bool(row.read_off)
