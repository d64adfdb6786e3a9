"""Loss curves of training on real ranks over gloo: what is written, and which policy leaves the band."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.core.program import Schedule, save
from simfrontier_extras.losses.curves import read_losses
from simfrontier_extras.losses.real.session import refuse_misnamed
from simfrontier_extras.losses.verbs import print_losses
from tests.real.grids import megatron
from tests.real.ranks import trained

LIMIT_S = 400.0
PLANS = {"plain": "none", "naive": "naive-zfp:6", "hybrid": "ZHybrid:6/16"}
STEPS, LAST = 18, 6


def made(compression: str, sizes: tuple[int, ...] = (2, 2, 2), compress_from: int = 0) -> Schedule:
    how = {"data": "zero1", "precision": "fp32", "compression": compression, "compress_from": compress_from}
    return megatron(*sizes, **how).schedule


def saved(plans: dict[str, str], folder: Path, sizes: tuple[int, ...], compress_from: int) -> list[str]:
    """A schedule file for each plan's compression."""
    files = []
    for plan, compression in plans.items():
        files.append(str(folder / f"schedule-{plan}.json"))
        save(made(compression, sizes, compress_from), Path(files[-1]))
    return files


@pytest.mark.parametrize(
    ("policies", "least", "message"),
    [
        (("naive-zfp:8",), 2**20, "0: compresses by 'naive-zfp:8', but codes nothing: all messages are below"),
        (("naive-zfp:8", "dp=zfp8, tp=zfp8, pp=zfp8, zero=zfp8"), 0, "0 and 1 compress alike"),
    ],
)
def test_curves_that_would_be_of_another_policy_are_refused(
    policies: tuple[str, ...], least: int, message: str
) -> None:
    plans = [(str(number), made(policy, compress_from=least)) for number, policy in enumerate(policies)]
    with pytest.raises(InputError, match=rf"^{message}"):
        refuse_misnamed(plans)
    refuse_misnamed([("plain", made("none")), ("naive", made("naive-zfp:8"))])


def test_loss_curves_of_real_ranks_are_written(tmp_path: Path) -> None:
    """Two steps of two seeds; the curve of a seed does not depend on the other."""
    (file,) = saved({"plain": "none"}, tmp_path, (1, 2, 1), 0)
    tables = [tmp_path / "both.csv", tmp_path / "one.csv"]
    for table, seeds in zip(tables, ("1,2", "2"), strict=True):
        trained(["losses", file, "--steps", "2", "--seeds", seeds, "--out", str(table)], 2, LIMIT_S)
    both, one = (read_losses(table, "none", 1, "here").of("none") for table in tables)
    assert list(both.columns) == [1, 2] and not both[1].equals(both[2])
    assert one[2].equals(both[2]) and len(one) == 2


@pytest.mark.long
def test_naive_compression_leaves_the_band_of_losses_and_the_hybrid_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six bits per value for everything, or for gradients alone and sixteen for the rest. Messages of 400 bytes and
    more are coded: of a model this small all but those of vectors."""
    files = saved(PLANS, tmp_path, (2, 2, 2), 400)
    table = tmp_path / "losses.csv"
    how = ["--steps", str(STEPS), "--seeds", "1,2", "--learning-rate", "1e-2", "--out", str(table)]
    trained(["losses", *files, *how], 8, LIMIT_S)
    curves = read_losses(table, "none", LAST, "here")
    assert [len(curves.of(policy).columns) for policy in PLANS.values()] == [2] * 3 and len(curves.steps) == STEPS
    assert curves.stays("naive-zfp:6") is False and curves.stays("ZHybrid:6/16") is True
    naive, hybrid = (curves.distance(PLANS[plan]) for plan in ("naive", "hybrid"))
    assert naive is not None and hybrid is not None and naive > 5 * abs(hybrid)
    assert print_losses(table, "none", LAST, as_json=False) is False
    message = capsys.readouterr().out
    assert "Band of 'none': " in message and "over 2 seeds" in message
    verdicts = {line.split()[0]: line.split()[-1] for line in message.splitlines()[3:]}
    assert verdicts == {"plain": "yes", "naive": "NO", "hybrid": "yes"}
