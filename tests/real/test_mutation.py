"""Faults of the executor are seen by the verdict of `train`: quickly some of them here, all in all families by `make
mutants`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.core.program import save
from simfrontier_real.verify.bounds import TOLERANCES
from simfrontier_real.verify.checks import MESSAGES
from simfrontier_real.verify.verdict import _verdict
from tests.real.mutation.cases import CASES, LOSSY
from tests.real.mutation.faults import ALL, BY_NAME
from tests.real.mutation.matrix import Bench
from tests.real.ranks import Ended, run_ranks
from tests.real.schedules import EXACT, QUANTISED, schedule

LIMIT_S = 120.0  # of a launch of two ranks, on a box that is busy with other tests

SOME = {
    "ddp": ("loss: gradient × 4", "loss: gradient × 1.0001", "accumulate: overwritten", "Adam: gradients × 1.0001"),
    "zero2 scattered": ("gradients: slice of another member",),
    "zero2": ("gradients: sum left out, own alone", "norm: not summed over ranks", "Adam: one gradient × 1.001"),
    "zero3": ("weights: gather left out", "gradients: sum left out, own × members", "accumulate: not cleared"),
    "zero3, lamb": ("LAMB: norms not summed over ranks", "LAMB: not scaled", "LAMB: update of the step before"),
    "hsdp": ("gradients: mean for sum", "Adam: left out on the last rank"),
    "zero-topo": ("weights: gather of the step before", "loss: not divided by ranks"),
    "lattice, three hops": ("gradients: pieces to scatter transposed", "weights: gathered pieces swapped"),
    "zero3 fp32": ("loss: gradient × 1.0001", "gradients: sum × 1.0001"),
    "megatron 2×2×2, zero1": ("exchange: halves swapped", "activations: sum left out, own × members"),
    "sequence parallel": ("activations: gather left out", "gradients: sum × members"),
    "interleaved": ("exchange: × 1.0001", "loss: not divided by micro-batches"),
    "compressed, zfp:16, stages": ("gradients: sum left out, own × members", "loss: gradient × 4"),
    "zeropp int4 gradients": ("gradients: sum left out, own × members", "codec: scales doubled"),
    "compressed, int8 and int4, stages": ("weights: gather of the step before", "codec: codes of the step before"),
    "zeropp int8 weights": ("codec: levels off by one", "gradients: sum × 1.0001"),
    "zeropp int8 and int4": ("codec: weights' codes of the step before", "Adam: left out for one tensor"),
    "zero-topo int8 and int4": ("accumulate: first micro-batch dropped", "gradients: slice of another member"),
}


@pytest.mark.parametrize("case", SOME)
def test_the_verdict_sees_faults(case: str) -> None:
    bench = Bench(case, CASES[case]())
    sound, _ = bench.result()
    assert sound.is_good, sound.missed
    for name in SOME[case]:
        result = bench.outcome(BY_NAME[name])
        assert result.said in ("caught", "ended"), (name, result)
        assert result.fired > 0, name


@pytest.mark.parametrize(("seed", "steps"), [(1, 2), pytest.param(2, 3, marks=pytest.mark.long)])
@pytest.mark.parametrize("case", LOSSY)
def test_what_codecs_lose_is_within_bounds_from_any_start(case: str, seed: int, steps: int) -> None:
    """A tenth of every bound is left."""
    result, _ = Bench(case, CASES[case](), steps=steps, seed=seed).result()
    assert not result.must_agree and result.is_good, result.missed
    assert all(each.seen <= 0.9 * each.limit for each in result.checks), list(map(str, result.checks))
    assert result.allowed
    gradients = next(each for each in result.checks if each.name == "gradients")
    assert TOLERANCES["gradients"].of("fp32") < gradients.limit <= 0.9


ROUNDINGS = [fault.name for fault in ALL if fault.codec]


@pytest.mark.parametrize("fault", ROUNDINGS)
@pytest.mark.parametrize("case", ["zeropp int8 weights", "zeropp int4 gradients"])
def test_a_codec_that_rounds_wrongly_ends_the_run_before_it_trains(case: str, fault: str) -> None:
    result = Bench(case, CASES[case]()).outcome(BY_NAME[fault])
    assert result.said == "ended" and result.fired > 0
    codec = "int8:64" if "int8" in case else "int4:64"
    assert result.why.startswith(f"codec {codec}: loses ") and "; documented: " in result.why


# ── clipping ──


@pytest.mark.parametrize("case", ["zero3", "megatron 2×2×2, zero1"])
def test_a_clip_that_binds_on_every_step_is_trained_equally(case: str) -> None:
    """And does not hide a wrong scale of the gradients, which it takes away again before Adam."""
    bench = Bench(case, CASES[case](), clip=0.05)
    result, _ = bench.result()
    assert result.is_good and result.clipped_steps == len(result.losses) == 2
    assert _verdict(result, True) == "equal; clipped to 0.05 in 2 steps"
    for name in ("loss: gradient × 4", "loss: gradient × 1.0001"):
        wrong, _ = bench.result(BY_NAME[name])
        assert {each.name for each in wrong.missed} >= {"gradients", "gradient of one tensor"}
        assert not wrong.is_good


# ── real ranks ──


def test_real_ranks_with_levels_off_by_one_end_with_exit_code_1(tmp_path: Path) -> None:
    """What they read of int8 weights is nearer than int8 itself: what arrived is not what was sent."""
    ended, result = _trained("codec: levels off by one", tmp_path, "qwz", "fp32")
    assert 0 not in ended.codes and 1 in ended.codes and not result["is_good"], ended.err
    assert f"DIFFERS: {MESSAGES}" in ended.out and "all_gather weight_gather of layer" in ended.out


def _trained(fault: str, folder: Path, case: str = "zero3", precision: str = "fp64") -> tuple[Ended, dict[str, object]]:
    file, report = folder / "schedule-a.json", folder / "trained.json"
    made = schedule({**EXACT, **QUANTISED}[case], (1, 1, 2), 2, precision=precision)
    save(made, file)
    arguments = [fault, "train", str(file), "--steps", "2", "--json", str(report)]
    ended = run_ranks([arguments] * 2, LIMIT_S, module="tests.real.mutation.ranks")
    (result,) = json.loads(report.read_text(encoding="utf-8"))
    return ended, result
