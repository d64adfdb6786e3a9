"""Loss curves of compressed training on eight real ranks over gloo: tensor × stages × replicas, several seeds."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.analysis.losses import read_losses
from simfrontier.cli.losses import print_losses
from simfrontier.schedule import save
from tests.real.grids import megatron
from tests.real.ranks import trained

LIMIT_S = 400.0
PLANS = {"plain": "none", "naive": "naive-zfp:6", "hybrid": "ZHybrid:6/16"}
STEPS, LAST = 18, 6


def test_naive_compression_leaves_the_band_of_losses_and_the_hybrid_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six bits per value for everything, or for gradients alone and sixteen for the rest. Messages of 400 bytes and
    more are coded: of a model this small all but those of vectors."""
    files = []
    for plan, compression in PLANS.items():
        grid = megatron(2, 2, 2, data="zero1", precision="fp32", compression=compression, compress_from=400)
        files.append(str(tmp_path / f"schedule-{plan}.json"))
        save(grid.schedule, Path(files[-1]))
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
