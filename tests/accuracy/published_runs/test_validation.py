"""Published runs held against predictions of fits that have not seen them: what is promised of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from simfrontier.accuracy import (
    PredictedRun,
    RunsValidation,
    load_parameters,
    read_runs,
    validate_runs,
    validate_shipped_runs,
)
from simfrontier.accuracy.published_runs.fit import sensitivities
from simfrontier.accuracy.published_runs.validation import _moved
from simfrontier.workers import Local, Workers
from tests.accuracy.published_runs.rows import run
from tests.refit import refitted, shipped_steps


@pytest.fixture(scope="module")
def shipped() -> RunsValidation:
    return validate_shipped_runs()


def of(done: RunsValidation, system: str) -> float:
    """Mean absolute error of the runs whose system matches."""
    return float(np.mean([abs(each.error or 0.0) for each in done.predicted if re.search(system, each.row["system"])]))


def test_runs_are_expressed_or_said(shipped: RunsValidation) -> None:
    assert len(shipped.rows) == len(read_runs()) == 235
    assert len(shipped.predicted) >= 215


def test_fits_that_leave_runs_out_vary_few_numbers(shipped: RunsValidation) -> None:
    assert len(load_parameters().parameters) <= len(shipped.predicted) / 20


def test_every_number_that_is_fitted_to_steps_is_one_of_them() -> None:
    """Each such number of a file of the catalogs is the value that a job of it has for a parameter."""
    steps = shipped_steps()
    known = {
        round(value, 6) for p in load_parameters().parameters for s in steps if p.applies(s) and (value := p.of(s))
    }
    found = set()
    for path in Path("simfrontier").rglob("catalog/*.toml"):
        text = path.read_text(encoding="utf-8")
        for number in re.findall(
            r'= \{ value = ([0-9.e+-]+), kind = "fitted", source = "least squares over whole', text
        ):
            assert round(float(number), 6) in known, f"{path}: {number}"
            found.add(number)
        assert not re.search(
            r'kind = "fitted", source = "(?!least squares over whole)[^"]*(steps of|training runs)', text
        )
    assert len(found) >= len(load_parameters().parameters)


def test_left_out_errors_are_as_promised(shipped: RunsValidation) -> None:
    overall = shipped.overall
    assert overall is not None
    assert all(each.use == "left out" for each in shipped.predicted)
    assert overall.mean_abs <= 0.12
    assert overall.median_abs <= 0.08
    assert overall.covered is not None and 0.85 <= overall.covered <= 0.95
    assert overall.width is not None and overall.width <= 0.25
    assert of(shipped, "Foundry") <= 0.10
    assert of(shipped, "BLOOM") <= 0.10
    assert of(shipped, "SC21") <= 0.08
    assert of(shipped, "torchtitan") <= 0.12
    amd = [each for each in shipped.predicted if "MI2" in each.row["machine_as_told"] or "lumi" in each.row["machine"]]
    assert np.mean([abs(each.error or 0.0) for each in amd]) <= 0.15


def test_what_is_left_out_is_the_machine_or_the_system(shipped: RunsValidation) -> None:
    for each in shipped.predicted:
        assert each.without in (each.row["machine"], each.row["system"])
    lone = {each.without for each in shipped.predicted if each.row["machine"] == "frontier"}
    assert lone == {"frontier"}  # lumi-g has the same device


def test_topologies_of_one_model_are_ranked(shipped: RunsValidation) -> None:
    """Kendall's τ of the steps of BLOOM's 72 layers of 64 heads on 384 devices: of all pairs of a topology and a
    micro-batch, and of the topologies, each at the micro-batch that was best for it in reality."""
    some: dict[str, dict[str, list[PredictedRun]]] = {}
    for each in shipped.predicted:
        run = each.row
        is_one = "BLOOM" in run["system"] and "L=72 h=14336 a=64" in run["model_shape"]
        if is_one and (run["devices"], run["batch"]) == ("384", "2048"):
            some.setdefault(run["plan"][:16], {}).setdefault(run["micro_batch"], []).append(each)
    pairs = {plan: [_means(several) for several in sizes.values()] for plan, sizes in some.items()}
    assert len(pairs) == 7
    assert sum(map(len, pairs.values())) == 15
    assert kendall(*zip(*(pair for sizes in pairs.values() for pair in sizes), strict=True)) >= 0.7
    assert kendall(*zip(*map(min, pairs.values()), strict=True)) >= 0.7


def _means(several: Sequence[PredictedRun]) -> tuple[float, float]:
    """Measured and predicted, of runs of the same job."""
    measured, predicted = ([each.measured for each in several], [each.prediction.value for each in several])
    return float(np.mean(measured)), float(np.mean(predicted))


def kendall(a: Sequence[float], b: Sequence[float]) -> float:
    signs = [np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in combinations(range(len(a)), 2)]
    return float(np.mean(signs))


def test_memory_is_near_what_is_stated(shipped: RunsValidation) -> None:
    assert shipped.memory is not None
    assert shipped.memory.count >= 60
    assert shipped.memory.mean_abs <= 0.10


def test_the_files_hold_what_the_runs_say() -> None:
    """A fit from where the files are moves no number by more than 3 %."""
    steps = shipped_steps()
    factors = refitted(steps, [step.timed.measured_s for step in steps], load_parameters().parameters)
    assert factors == pytest.approx([1.0] * len(factors), abs=0.03)


def test_a_user_s_rows_are_never_fitted_to() -> None:
    rows = read_runs()[100:104]
    done = validate_runs(rows, "mine")
    assert [each.use for each in done.predicted] == ["held"] * 4
    again = validate_runs([row for row in rows if row.number != 101], "mine")
    kept = {each.row.number: each.prediction.value for each in done.predicted if each.row.number != 101}
    assert {each.row.number: each.prediction.value for each in again.predicted} == kept


def test_on_two_processes_the_same_is_found_to_the_last_bit(two_workers: Workers) -> None:
    """Also of a row that has no step: no model is named so."""
    rows = [*read_runs()[100:103], run(model_shape="nothing")]
    alone, together = (validate_runs(rows, "mine", workers) for workers in (None, two_workers))
    assert (len(alone.predicted), len(alone.rows) - len(alone.predicted)) == (3, 1)
    assert together == alone


def test_how_steps_move_is_the_same_on_two_processes(two_workers: Workers) -> None:
    laws = []
    for workers in (Workers(Local()), two_workers):
        moved = list(workers.in_order(_moved, ((row,) for row in read_runs()[100:103])))
        laws.append(sensitivities([moves for _, moves in moved], load_parameters().parameters))  # type: ignore[misc]
    for name in ("off", "moves", "from_prior"):
        assert getattr(laws[0], name).tobytes() == getattr(laws[1], name).tobytes() and getattr(laws[0], name).any()


def test_intervals_are_wider_where_a_source_tells_less(shipped: RunsValidation) -> None:
    def sds(group: str, least: int, most: int) -> list[float]:
        """Of the runs of a group with so many unknown things."""
        own = [each for each in shipped.predicted if each.without == group]
        return [each.sd for each in own if least <= len(each.job.unknown) <= most]

    assert min(each.sd for each in shipped.predicted) >= load_parameters().spread
    assert max(sds("selene", 0, 0)) < min(sds("selene", 1, 9))
    assert max(sds("grand-teton", 0, 0)) < min(sds("grand-teton", 1, 9))
    # what is left of V100 is one run, of MI250X six more: the fit is surer of these
    assert max(sds("dgx2", 4, 4)) > max(sds("lumi-g", 4, 4))
    for each in shipped.predicted:
        made = each.prediction
        assert made.low < made.value < made.high
        assert made.value / made.low == pytest.approx(made.high / made.value)


def test_the_worst_come_first(shipped: RunsValidation) -> None:
    far = [abs(np.log(each.prediction.value / each.measured)) for each in shipped.worst(10)]
    assert far == sorted(far, reverse=True)
    assert len(far) == 10


def test_memory_of_many_layers_is_at_least_that_of_what_is_kept() -> None:
    """Llama 3.1 8B by ZeRO-3 on 8 devices keeps 8.03e9 / 8 parameters, each with 2 bytes of itself, 2 of its gradient
    and 12 of the optimizer; its buffers meet in time less with three layers than with two."""
    model = "Llama-3.1-8B L=32 h=4096 a=32 kv=8 ffn=14336 v=128256"
    cells = {
        "plan": "FSDP2",
        "batch": "8",
        "seq": "8192",
        "micro_batch": "1",
        "precision": "bf16",
        "system": "torchtitan",
    }
    (held,) = validate_runs([run(model_shape=model, **cells)], "one").predicted
    assert held.step.peak_bytes > 8.03e9 / 8 * 16
