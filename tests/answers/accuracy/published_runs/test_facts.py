"""Facts of jobs: the shipped table has those of the runs' scenarios, and models are found by their sizes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simfrontier.answers.accuracy.published_runs.facts import catalog_name, facts_of
from simfrontier.answers.accuracy.published_runs.job import PLAN, job_of
from simfrontier.answers.accuracy.published_runs.left_out import LEFT_OUT, read_left_out
from simfrontier.answers.accuracy.published_runs.table import shipped_runs
from simfrontier.core.workload import GptShape, find_model


def test_shipped_rows_have_the_facts_of_their_scenarios() -> None:
    runs = {run.line: run for run in shipped_runs()}
    for row in read_left_out(LEFT_OUT)[::17]:
        job = job_of(runs[row.run])
        case = job.scenario.case(PLAN, job.scenario.file.run.devices[0])
        facts = facts_of(job.scenario, case, job.steps)
        for name in ("billions", "token_gflops"):  # written with five digits
            assert getattr(row.facts, name) == pytest.approx(getattr(facts, name), rel=1e-4)
        assert replace(row.facts, billions=facts.billions, token_gflops=facts.token_gflops) == facts, row.run


def test_rates_of_a_step() -> None:
    """512 sequences of 2,048 tokens in 10 s on 64 devices; of 40 GFLOP a token."""
    row = next(row for row in read_left_out(LEFT_OUT))
    facts = replace(row.facts, batch=512, sequence=2048, devices=64, token_gflops=40.0)
    assert facts.tokens_per_s_per_device(10.0) == 512 * 2048 / 10 / 64
    assert facts.tflops_per_device(10.0) == pytest.approx(512 * 2048 * 40e9 / 10 / 64 / 1e12)


def test_a_model_is_found_by_its_layers() -> None:
    """Whatever its name and sequences; of two that differ in the vocabulary alone, the nearer one; none if it has
    fewer layers."""
    shape = find_model("llama-3-70b")
    assert isinstance(shape, GptShape)
    own = replace(shape, name="mine", sequence=32768, vocabulary=128512)
    assert catalog_name(own) == "llama-3-70b"
    assert catalog_name(replace(own, vocabulary=32000)) == "llama-2-70b"
    assert catalog_name(replace(own, num_layers=40)) == ""
