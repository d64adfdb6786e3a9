"""Published runs held against predictions of fits that have not seen them: what is promised of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest

from simfrontier.runs import HeldRun, RunsValidation, load_parameters, read_runs, validate_runs, validate_shipped_runs
from simfrontier.runs.fit import refitted
from simfrontier.runs.validation import _steps, measured_s
from tests.runs.rows import run


@pytest.fixture(scope="module")
def shipped() -> RunsValidation:
    return validate_shipped_runs()


def of(done: RunsValidation, system: str) -> float:
    """Mean absolute error of the runs whose system matches."""
    return float(np.mean([abs(each.error) for each in done.held if re.search(system, each.run["system"])]))


def test_runs_are_expressed_or_said(shipped: RunsValidation) -> None:
    assert shipped.count == len(read_runs()) == 235
    assert len(shipped.held) >= 215


def test_fits_that_leave_runs_out_vary_few_numbers(shipped: RunsValidation) -> None:
    assert len(load_parameters().parameters) <= len(shipped.held) / 20


def test_left_out_errors_are_as_promised(shipped: RunsValidation) -> None:
    overall = shipped.overall
    assert overall is not None
    assert all(each.use == "left out" for each in shipped.held)
    assert overall.mean <= 0.12
    assert overall.median <= 0.08
    assert 0.85 <= overall.covered <= 0.95
    assert overall.width <= 0.25
    assert of(shipped, "Foundry") <= 0.10
    assert of(shipped, "BLOOM") <= 0.10
    assert of(shipped, "SC21") <= 0.08
    assert of(shipped, "torchtitan") <= 0.12
    amd = [each for each in shipped.held if "MI2" in each.run["machine_as_told"] or "lumi" in each.run["machine"]]
    assert np.mean([abs(each.error) for each in amd]) <= 0.15


def test_what_is_left_out_is_the_machine_or_the_system(shipped: RunsValidation) -> None:
    for each in shipped.held:
        assert each.without in (each.run["machine"], each.run["system"])
    lone = {each.without for each in shipped.held if each.run["machine"] == "frontier"}
    assert lone == {"frontier"}  # lumi-g has the same device


def test_topologies_of_one_model_are_ranked(shipped: RunsValidation) -> None:
    """Kendall's τ of the steps of BLOOM's 72 layers on 384 devices by topology, each at the micro-batch that was best
    for it in reality."""
    some: dict[str, dict[str, list[HeldRun]]] = {}
    for each in shipped.held:
        run = each.run
        is_one = "BLOOM" in run["system"] and "L=72 h=14336" in run["model_shape"]
        if is_one and (run["devices"], run["batch"]) == ("384", "2048"):
            some.setdefault(run["plan"][:16], {}).setdefault(run["micro_batch"], []).append(each)
    assert len(some) >= 7
    best = [
        min(sizes.values(), key=lambda several: np.mean([each.run.value for each in several]))
        for sizes in some.values()
    ]
    measured = [float(np.mean([each.run.value for each in several])) for several in best]
    predicted = [float(np.mean([each.predicted for each in several])) for several in best]
    assert kendall(measured, predicted) >= 0.7


def kendall(a: Sequence[float], b: Sequence[float]) -> float:
    signs = [np.sign(a[i] - a[j]) * np.sign(b[i] - b[j]) for i, j in combinations(range(len(a)), 2)]
    return float(np.mean(signs))


def test_memory_is_near_what_is_stated(shipped: RunsValidation) -> None:
    assert shipped.memory is not None
    assert shipped.memory.count >= 60
    assert shipped.memory.mean <= 0.10


def test_the_files_hold_what_the_runs_say() -> None:
    """A fit from where the files are moves no number by more than 3 %."""
    steps, _ = _steps(read_runs())
    factors = refitted(steps, [measured_s(step) for step in steps], load_parameters().parameters)
    assert factors == pytest.approx([1.0] * len(factors), abs=0.03)


def test_a_user_s_rows_are_never_fitted_to() -> None:
    rows = read_runs()[100:104]
    done = validate_runs(rows, "mine")
    assert [each.use for each in done.held] == ["held"] * 4
    again = validate_runs([row for row in rows if row.number != 101], "mine")
    kept = {each.run.number: each.predicted for each in done.held if each.run.number != 101}
    assert {each.run.number: each.predicted for each in again.held} == kept


def test_intervals_are_wider_where_a_source_tells_less(shipped: RunsValidation) -> None:
    sure = [each.sd for each in shipped.held if not each.job.unknown]
    unsure = [each.sd for each in shipped.held if len(each.job.unknown) > 2]
    assert max(sure) == min(sure) < min(unsure)
    for each in shipped.held:
        assert each.low < each.predicted < each.high
        assert each.predicted / each.low == pytest.approx(each.high / each.predicted)


def test_the_worst_come_first(shipped: RunsValidation) -> None:
    far = [abs(np.log(each.predicted / each.run.value)) for each in shipped.worst(10)]
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
    (held,) = validate_runs([run(model_shape=model, **cells)], "one").held
    assert held.peak_bytes > 8.03e9 / 8 * 16
