"""Compressed training on real ranks over gloo: every codec, and in the long tests loss curves from several seeds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.analysis.losses import read_losses
from simfrontier.cli.losses import print_losses
from simfrontier.schedule import save
from tests.real.grids import megatron
from tests.real.ranks import trained

LIMIT_S = 400.0
CODECS = {"mpc": "naive-mpc", "zfp": "naive-zfp:16", "hybrid": "ZHybrid:8/16"}
PLANS = {"plain": "none", "naive": "naive-zfp:6", "hybrid": "ZHybrid:6/16"}
STEPS, LAST = 18, 6


def saved(plans: dict[str, str], folder: Path, *sizes: int, compress_from: int) -> list[str]:
    files = []
    for plan, compression in plans.items():
        how = {"data": "zero1", "precision": "fp32", "compression": compression, "compress_from": compress_from}
        files.append(str(folder / f"schedule-{plan}.json"))
        save(megatron(*sizes, **how).schedule, Path(files[-1]))
    return files


def test_every_codec_trains_within_its_bounds_on_real_ranks(tmp_path: Path) -> None:
    """Two stages of two replicas: gradients, weights and what stages exchange are coded. Without loss, or with as much
    as the codec may lose."""
    report = tmp_path / "trained.json"
    trained(
        ["train", *saved(CODECS, tmp_path, 1, 2, 2, compress_from=0), "--steps", "2", "--json", str(report)], 4, LIMIT_S
    )
    results = {each["name"]: each for each in json.loads(report.read_text(encoding="utf-8"))}
    assert results.keys() == CODECS.keys()
    for name, result in results.items():
        assert result["is_good"] and result["codecs"], (name, result)
        assert result["must_agree"] == (name == "mpc")
    assert results["mpc"]["weights_error"] < 1e-5 < results["zfp"]["weights_error"]


def test_loss_curves_of_real_ranks_are_written(tmp_path: Path) -> None:
    """Two steps of two seeds; the curve of a seed does not depend on the other."""
    (file,) = saved({"plain": "none"}, tmp_path, 1, 2, 1, compress_from=0)
    tables = [tmp_path / "both.csv", tmp_path / "one.csv"]
    for table, seeds in zip(tables, ("1,2", "2"), strict=True):
        trained(["losses", file, "--steps", "2", "--seeds", seeds, "--out", str(table)], 2, LIMIT_S)
    both, one = (read_losses(table, "none", 1, "here").of("none") for table in tables)
    assert [run.seed for run in both] == [1, 2] and both[0].losses != both[1].losses
    assert one == both[1:] and len(one[0].losses) == 2


@pytest.mark.long
def test_naive_compression_leaves_the_band_of_losses_and_the_hybrid_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six bits per value for everything, or for gradients alone and sixteen for the rest. Messages of 400 bytes and
    more are coded: of a model this small all but those of vectors."""
    files = saved(PLANS, tmp_path, 2, 2, 2, compress_from=400)
    table = tmp_path / "losses.csv"
    how = ["--steps", str(STEPS), "--seeds", "1,2", "--learning-rate", "1e-2", "--out", str(table)]
    trained(["losses", *files, *how], 8, LIMIT_S)
    curves = read_losses(table, "none", LAST, "here")
    assert [len(curves.of(policy)) for policy in PLANS.values()] == [2] * 3 and len(curves.steps) == STEPS
    assert curves.stays("naive-zfp:6") is False and curves.stays("ZHybrid:6/16") is True
    naive, hybrid = (curves.distance(PLANS[plan]) for plan in ("naive", "hybrid"))
    assert naive is not None and hybrid is not None and naive > 5 * abs(hybrid)
    assert print_losses(table, "none", LAST, as_json=False) is False
    message = capsys.readouterr().out
    assert "Band of 'none': " in message and "over 2 seeds" in message
    verdicts = {line.split()[0]: line.split()[-1] for line in message.splitlines()[3:]}
    assert verdicts == {"plain": "yes", "naive": "NO", "hybrid": "yes"}
