"""Rows, tables and models that tests hold against each other; all numbers are made up."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from simfrontier.answers.accuracy.predictors.rates import BoundedRate
from simfrontier.answers.accuracy.residual import NotCovered, Prediction, Residual, Use
from simfrontier.core.workload import MODELS, GptShape
from simfrontier.inputs.measured import Pathology, RowPlace, Table
from simfrontier.inputs.measured.rows import CopyRow, RateRow, Row
from tests.rows import MIB, call


def training(value: float = 50e12) -> RateRow:
    """A published rate of training."""
    return RateRow(
        machine="frontier",
        what="training",
        quantity="flops_per_s",
        value=value,
        statistic="published",
        status="paper",
        source="a paper",
        place=RowPlace("there", 2),
        model="20B <GPT>",
        plan="zero3",
        devices=384,
    )


def copy_row(**changed: Any) -> CopyRow:
    """A row of a copy between two devices of a node, 16 MiB."""
    known: dict[str, Any] = {
        "machine": "lumi-g",
        "path_class": "4 links",
        "pair": "0-1",
        "scope": "intra-node",
        "benchmark": "osu_bw",
        "num_bytes": 16 * MIB,
        "library": "cray-mpich",
        "value": 100.0,
        "unit": "GB/s",
        "source": "made up",
        "place": "made.csv line 2",
    }
    return CopyRow(**{**known, **changed})


def bounded(published: float, most: float) -> BoundedRate:
    """A published rate and the most that is allowed, flop/s."""
    shape = MODELS["gpt-20b"]
    assert isinstance(shape, GptShape)
    return BoundedRate(row=training(published), shape=shape, published_flops_per_s=published, bound_flops_per_s=most)


def predicted(seconds: float, spread: float = 1.2) -> Prediction:
    """A prediction whose interval reaches by a factor to both sides."""
    return Prediction(value=seconds, low=seconds / spread, high=seconds * spread, harness_s=seconds / 10)


def held(
    measured_s: float | None, predicted_s: float | None, use: Use = "held", table: str = "one", devices: int = 16
) -> Residual[Any]:
    """A row held against a prediction."""
    made = None if predicted_s is None else predicted(predicted_s)
    row: Row = training() if measured_s is None else call(measured_s, devices)
    return Residual(table=table, row=row, measured=measured_s, prediction=made, use=use, why="")


def table(
    rows: Iterable[Row], name: str = "one", pathologies: tuple[Pathology, ...] = (), citation: str = "a repository"
) -> Table:
    """A table of made-up rows."""
    return Table(
        name=name,
        file=f"{name}.csv",
        form="calls",
        title=f"Table {name}",
        citation=citation,
        method="by <hand>",
        caveats=(),
        rows=tuple(rows),
        pathologies=pathologies,
    )


def models(
    factor: float = 1.1, fitted: Callable[[Row], bool] = lambda row: False, most_flops_per_s: float = 60e12
) -> tuple[Callable[[Row], Prediction | BoundedRate | NotCovered], Callable[[Row], bool]]:
    """A predictor of every call by rccl as `factor` times what was measured, and of no other library, and `fitted`."""

    def predict(row: Row) -> Prediction | BoundedRate | NotCovered:
        if isinstance(row, RateRow):
            return bounded(row.value, most_flops_per_s)
        if row.library != "rccl":
            return NotCovered(reason=f"no model of library {row.library!r}", allowed="allowed: rccl")
        return predicted(factor * row.seconds)

    return predict, fitted
