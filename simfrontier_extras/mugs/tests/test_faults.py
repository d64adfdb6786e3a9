"""Faults in Mugs' training, by the verdict; and clips, and a step whose rounding is larger than others'."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.real.mutation.cases import CASES
from tests.real.mutation.faults import BY_NAME
from tests.real.mutation.matrix import Bench

FAULTS = ("statistics: gathered pieces swapped", "teacher: does not follow", "Adam: gradients × 4")


def test_the_verdict_sees_faults() -> None:
    bench = Bench("mugs", CASES["mugs"]())
    sound, _ = bench.result()
    assert sound.is_good, sound.missed
    for name in FAULTS:
        result = bench.outcome(BY_NAME[name])
        assert result.said in ("caught", "ended") and result.fired > 0, (name, result)


def test_the_default_clip_binds_on_no_step() -> None:
    result, _ = Bench("mugs", CASES["mugs"](), steps=4).result()
    assert result.clipped_steps == 0
    assert result.gradient_norms == pytest.approx(result.reference_norms, rel=1e-9)


def test_a_clip_that_binds_on_every_step_is_trained_equally() -> None:
    """And does not hide a wrong scale of the gradients, which it takes away again before Adam."""
    bench = Bench("mugs", CASES["mugs"](), clip=0.05)
    result, _ = bench.result()
    assert result.is_good and result.clipped_steps == len(result.losses) == 2
    for name in ("loss: gradient × 4", "loss: gradient × 1.0001"):
        wrong, _ = bench.result(BY_NAME[name])
        assert {each.name for each in wrong.missed} >= {"gradients", "gradient of one tensor"}
        assert not wrong.is_good


@pytest.fixture
def two_threads() -> Iterator[None]:
    """How rounding adds up in fp32 depends on who adds what: whatever ran before in this process, two threads do."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("two_threads")
def test_a_step_that_makes_differences_larger_is_no_fault() -> None:
    """Step 4: some 1e-4 on some processors, 2e-5 on others, whose products round otherwise."""
    result, _ = Bench("mugs fp32", CASES["mugs fp32"](), steps=12, seed=1).result()
    checks = {each.name: each for each in result.checks}
    peak, usual = checks["gradient of one tensor"], checks["gradient of one tensor of most steps"]
    assert result.is_good and usual.seen < peak.seen < peak.limit, list(map(str, result.checks))
