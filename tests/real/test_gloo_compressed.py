"""Compressed training on real ranks over gloo, with every codec."""

from __future__ import annotations

import json
from pathlib import Path

from simfrontier.core.program import save
from tests.real.grids import megatron
from tests.real.ranks import trained

LIMIT_S = 400.0
CODECS = {"mpc": "naive-mpc", "zfp": "naive-zfp:16", "hybrid": "ZHybrid:8/16"}


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
