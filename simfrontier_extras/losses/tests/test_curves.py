"""Losses of runs: means, distances and the baseline's band, from numbers worked out by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from simfrontier_extras.losses.curves import LossCurves, policy_of, read_losses

# Losses of four steps, of which the last two are averaged. Finals of the baseline: 1.0, 1.2, 1.4; their standard
# deviation is 0.2.
NONE = {1: [4.0, 2.0, 1.1, 0.9], 2: [4.0, 2.0, 1.2, 1.2], 3: [4.0, 2.0, 1.3, 1.5]}
RUNS = {
    "none": NONE,
    "naive-zfp:8": {1: [4.0, 3.0, 2.0, 2.0], 3: [4.0, 3.0, 2.0, 2.2]},  # finals 2.0, 2.1: 1.0 and 0.7 above
    "ZHybrid:8/16": {seed: [loss + 0.3 for loss in losses] for seed, losses in NONE.items()},
    "naive-mpc per hop": {seed: list(losses) for seed, losses in NONE.items()},
    "dp=zfp:4": {1: [4.0, math.inf, math.nan, math.nan]},
}


def written(path: Path, runs: dict[str, dict[int, list[float]]] = RUNS) -> Path:
    """A file of losses."""
    rows = [
        f'{text.partition(":")[0]},"{text}",{seed},{10 * step},{loss}'
        for text, seeds in runs.items()
        for seed, losses in seeds.items()
        for step, loss in enumerate(losses)
    ]
    path.write_text("\n".join(["plan,compression,seed,step,loss", *reversed(rows)]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def losses(tmp_path: Path) -> LossCurves:
    return read_losses(written(tmp_path / "losses.csv"), "none", 2, "made up")


def test_a_final_loss_is_the_mean_of_the_last_steps(losses: LossCurves) -> None:
    assert losses.steps == [0, 10, 20, 30]
    assert losses.finals("none").to_dict() == pytest.approx({1: 1.0, 2: 1.2, 3: 1.4})
    assert losses.finals("naive-zfp").to_dict() == pytest.approx({1: 2.0, 3: 2.1})


def test_the_band_is_two_standard_deviations(losses: LossCurves) -> None:
    assert losses.half_band == pytest.approx(0.4)
    assert losses.band == pytest.approx((0.8, 1.6))


def test_distances_are_seed_by_seed(losses: LossCurves) -> None:
    assert losses.distance("naive-zfp:8") == pytest.approx(0.85)  # not 2.05 - 1.2, which is the same only by chance
    assert losses.distance("ZHybrid:8/16") == pytest.approx(0.3)
    assert losses.distance("none") == losses.distance("naive-mpc per hop") == 0.0
    assert losses.distance("naive-mpc") is None
    stays = {text: losses.stays(text) for text in (*RUNS, "naive-mpc")}
    assert list(stays.values()) == [True, False, True, True, False, None]


def test_what_diverges_has_no_finite_distance(losses: LossCurves) -> None:
    distance = losses.distance("dp=zfp:4")
    assert distance is not None and not math.isfinite(distance)
    assert not np.isfinite(losses.distances("dp=zfp:4")[1:]).any()


def test_curves_are_means_over_seeds(losses: LossCurves) -> None:
    np.testing.assert_allclose(losses.smoothed("none"), [np.nan, 3.0, 1.6, 1.2])
    np.testing.assert_allclose(losses.distances("naive-zfp:8"), [np.nan, 0.5, 0.9, 0.85])
    # of 1.55, 1.6, 1.65, then of 1.0, 1.2, 1.4
    np.testing.assert_allclose(losses.half_bands, [np.nan, 0.0, 0.1, 0.4], atol=1e-12)


def test_one_seed_gives_no_band(tmp_path: Path) -> None:
    one = {text: {1: seeds[1]} for text, seeds in RUNS.items()}
    losses = read_losses(written(tmp_path / "one.csv", one), "none", 2, "made up")
    assert losses.half_band is losses.band is losses.half_bands is losses.stays("naive-zfp:8") is None
    assert losses.distance("naive-zfp:8") == pytest.approx(1.0)


def test_a_policy_is_what_its_codecs_are() -> None:
    assert policy_of("naive-zfp") == policy_of("naive-zfp:8") == policy_of("dp=zfp8, tp=zfp8, pp=zfp8, zero=zfp8")
    assert policy_of("naive-zfp:8 per hop") == f"{policy_of('naive-zfp')} per hop" != policy_of("naive-zfp:16 per hop")
