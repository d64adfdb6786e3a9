"""Copies between two devices: laws worked by hand, the shipped fits made again, and sizes that were not fitted."""

from collections.abc import Sequence

import numpy as np
import pytest

from simfrontier.answers.accuracy.predictors.copies import copy_fitted, copy_seconds, narrowest, predict_copy
from simfrontier.answers.accuracy.residual import Prediction
from simfrontier.core.machine import Machine, load_machine
from simfrontier.inputs.measured import CopyRow
from tests.answers.accuracy.standins import copy_row
from tests.inputs.measured.tables import shipped
from tests.rows import MIB


@pytest.fixture(scope="module")
def lumi() -> Machine:
    return load_machine("lumi-g")


@pytest.fixture(scope="module")
def rows() -> tuple[CopyRow, ...]:
    return (*shipped("lumi_p2p", CopyRow), *shipped("mi250x_p2p_16MiB", CopyRow))


def held(rows: Sequence[CopyRow], scope: str) -> list[tuple[CopyRow, Prediction]]:
    """Rows with a law that no number was fitted to, without the known anomaly of Open MPI's short messages."""
    out = []
    for each in rows:
        made = predict_copy(each)
        odd = each.library == "openmpi-ucx" and each.scope == "inter-node" and each.num_bytes < 256
        if each.scope == scope and isinstance(made, Prediction) and not copy_fitted(each) and not odd:
            out.append((each, made))
    return out


def test_a_copy_over_one_link_pays_its_half_size(lumi: Machine) -> None:
    # (16777216 + 1683000) bytes / (0.775 * 200 GB/s) = 119.10 us
    assert copy_seconds(lumi, copy_row()) == pytest.approx((16 * MIB + 1.683e6) / 155e9, rel=1e-12)
    assert copy_seconds(lumi, copy_row()) == pytest.approx(119.10e-6, rel=1e-4)


def test_a_routed_copy_gets_a_share_of_its_narrowest_link(lumi: Machine) -> None:
    # 0-6-7 passes 100 and 200 GB/s: start-up 0.855 MB / 79 GB/s = 10.823 us, then 16777216 / (0.90 * 79 GB/s)
    link, hops = narrowest(lumi, 0, 7)
    assert (link.name, hops) == ("xgmi2", 2)
    expected = 0.855e6 / 79e9 + 16 * MIB / (0.90 * 79e9)
    assert copy_seconds(lumi, copy_row(pair="0-7", path_class="routed")) == pytest.approx(expected, rel=1e-12)


def test_a_copy_engine_is_limited_by_itself_or_by_the_link(lumi: Machine) -> None:
    wide = copy_seconds(lumi, copy_row(benchmark="sdma_copy", unit="MB/s"))
    narrow = copy_seconds(lumi, copy_row(benchmark="sdma_copy", unit="MB/s", pair="0-2"))
    assert wide == pytest.approx(16 * MIB / 49.4e9, rel=1e-12)
    assert narrow == pytest.approx(16 * MIB / (0.791 * 50e9), rel=1e-12)


def test_streams_between_nodes_wait_for_the_host_or_for_the_wire(lumi: Machine) -> None:
    # the gap of 0.693 us is as long as (12241 + 3837) bytes take at 23.2 GB/s
    many = {"scope": "inter-node", "pair": "", "path_class": "one NIC each side"}
    assert copy_seconds(lumi, copy_row(num_bytes=1024, **many)) == pytest.approx(0.693e-6)
    assert copy_seconds(lumi, copy_row(num_bytes=12240, **many)) == pytest.approx(0.693e-6)
    assert copy_seconds(lumi, copy_row(num_bytes=65536, **many)) == pytest.approx((65536 + 3837) / 23.2e9)


@pytest.mark.parametrize(
    ("library", "num_bytes", "expected_us"),
    [
        ("cray-mpich", 128, 2.5),
        ("cray-mpich", 1024, 3.43 + 1024 / 14e3),
        ("cray-mpich", 16384, 3.43 + 16384 / 14e3),
        ("cray-mpich", 32768, 6.67 + 32768 / 23.2e3),
        ("openmpi-ucx", 4096, 3.43 + 4096 / 14e3),
        ("openmpi-ucx", 8192, 6.67 + 8192 / 24.42e3),
    ],
)
def test_a_message_alone_is_short_then_eager_then_agreed_upon(
    lumi: Machine, library: str, num_bytes: int, expected_us: float
) -> None:
    alone = copy_row(
        scope="inter-node", benchmark="osu_latency", unit="us", library=library, num_bytes=num_bytes, pair=""
    )
    assert copy_seconds(lumi, alone) == pytest.approx(expected_us * 1e-6, rel=1e-12)


def test_intervals_cover_80_to_98_percent_of_what_was_not_fitted(rows: tuple[CopyRow, ...]) -> None:
    checked = held(rows, "intra-node") + held(rows, "inter-node")
    covered = [made.low <= each.seconds <= made.high for each, made in checked]
    assert 0.80 <= np.mean(covered) <= 0.98
