"""One layer of experts on 8 H100, forward and backward, against the baselines of Megatron-LM's performance test of it.

NVIDIA/Megatron-LM@d98e8a6, tests/functional_tests/test_cases/common/moe_perf, in the table of published runs. Its
configuration passes neither gated experts nor the shared expert on, which its cases name.
"""

from __future__ import annotations

from functools import cache
from statistics import fmean

import pytest

from simfrontier.answers.accuracy.published_runs.step import JobStep, step_of
from simfrontier.answers.accuracy.published_runs.table import shipped_runs


@cache
def layers() -> tuple[JobStep, ...]:
    return tuple(step_of(run) for run in shipped_runs() if "ONE MoE LAYER" in run["model_shape"])


def test_layers_take_as_long_as_measured() -> None:
    """Nothing is assumed about them. One number is fitted to those in FP8: the rate of products with a scale for every
    block (stack megatron-core-blocks). H100's rate of products is fitted to steps of dense models."""
    timed = [step.timed for step in layers()]
    errors = [abs(each.step_s / each.measured_s - 1.0) for each in timed]
    assert len(errors) == 24 and not any(each.job.unknown for each in timed)
    assert fmean(errors) < 0.06
    assert max(errors) < 0.16


@pytest.mark.parametrize("way", ["forward", "backward"])
def test_dispatchers_are_ranked_as_measured(way: str) -> None:
    """HybridEP before DeepEP before the all-to-all, where a position chooses 8 experts on 4 of 8 ranks."""
    timed = [step.timed for step in layers() if step.job.rate.layer == way]
    of = [each for each in timed if each.shape.num_experts == 32 and each.job.run["precision"] == "BF16"]
    assert [each.job.document["plans"]["run"]["dispatch"] for each in sorted(of, key=lambda each: each.step_s)] == [
        *("hybridep", "deepep", "all_to_all")
    ]
    assert sorted(of, key=lambda each: each.step_s) == sorted(of, key=lambda each: each.measured_s)
