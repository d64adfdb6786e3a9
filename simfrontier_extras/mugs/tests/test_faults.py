"""Faults in Mugs' training, by the verdict; and clips, and a step whose rounding is larger than others'."""

from __future__ import annotations

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


def test_a_clip_that_binds_on_every_step_is_trained_equally() -> None:
    """And does not hide a wrong scale of the gradients, which it takes away again before Adam."""
    bench = Bench("mugs", CASES["mugs"](), clip=0.05)
    result, _ = bench.result()
    assert result.is_good and result.clipped_steps == len(result.losses) == 2
    for name in ("loss: gradient × 4", "loss: gradient × 1.0001"):
        wrong, _ = bench.result(BY_NAME[name])
        assert {each.name for each in wrong.missed} >= {"gradients", "gradient of one tensor"}
        assert not wrong.is_good
