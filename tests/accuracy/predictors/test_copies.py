"""Copies between two devices: laws worked by hand, the shipped fits made again, and sizes that were not fitted."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from simfrontier.accuracy.predictors.copies import copy_fitted, copy_sd, copy_seconds, narrowest, predict_copy
from simfrontier.accuracy.residual import NotCovered, Prediction
from simfrontier.machine import Machine, load_machine
from simfrontier.measured import CopyRow
from tests.accuracy.standins import copy_row
from tests.measured.tables import shipped
from tests.rows import MIB

LIBRARIES = ("cray-mpich", "openmpi-ucx")


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


def test_a_copy_of_half_bytes_gets_half_of_the_rate(lumi: Machine) -> None:
    link, hops = narrowest(lumi, 0, 6)
    assert (link.name, hops) == ("xgmi2", 1)
    seconds = copy_seconds(lumi, copy_row(pair="0-6", num_bytes=int(link.half_bytes)))
    assert link.half_bytes / seconds == pytest.approx(0.5 * link.share * link.bytes_per_s, rel=1e-12)


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


def test_a_class_without_a_pair_is_its_first_pair(lumi: Machine) -> None:
    for path_class, pair in (("4 links", "0-1"), ("2 links", "0-6"), ("1 link", "0-2")):
        median = copy_row(pair="median over all pairs of the class", path_class=path_class)
        assert copy_seconds(lumi, median) == copy_seconds(lumi, copy_row(pair=pair))


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


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (
            {"machine": "lumi"},
            "no machine 'lumi'; did you mean \"lumi-g\"?",
        ),
        ({"machine": "toy-quad"}, "machine toy-quad says nothing of single copies (copies)"),
        (
            {"benchmark": "osu_latency", "unit": "us"},
            "no law of small messages inside a node: two sizes were measured, which leave nothing to check it by",
        ),
        ({"pair": "0-8"}, "pair: got 0-8, allowed: two different devices of 0..7"),
        ({"pair": "", "path_class": "3 links"}, "no pair of lumi-g is told by pair '' and class '3 links'"),
        ({"scope": "inter-node", "benchmark": "kernel_copy"}, "no law of kernel_copy between nodes"),
        (
            {"scope": "inter-node", "library": "mpich"},
            "no messages between nodes by library 'mpich'; did you mean \"cray-mpich\"?",
        ),
    ],
)
def test_a_row_without_a_law_says_why(changed: dict[str, Any], reason: str) -> None:
    result = predict_copy(copy_row(**changed))
    assert isinstance(result, NotCovered) and str(result) == reason


def test_the_interval_is_that_of_a_normal_of_the_logarithm(lumi: Machine) -> None:
    made = predict_copy(copy_row())
    assert isinstance(made, Prediction)
    spread = math.exp(1.6449 * copy_sd(lumi, copy_row()))
    assert (made.low, made.high) == pytest.approx((made.value / spread, made.value * spread), rel=1e-5)


# ── the shipped numbers, fitted once more ──


def fitted(law: Callable[..., Any], start: Sequence[float], seconds: Any) -> list[float]:
    """Least squares of log times over the logarithms of positive numbers (Gauss and Newton)."""
    guess = np.log(np.array(start))
    for _ in range(50):
        rest = np.log(law(*np.exp(guess)) / seconds)
        steps = 1e-6 * np.eye(len(guess))
        slopes = np.array([(np.log(law(*np.exp(guess + step)) / seconds) - rest) / 1e-6 for step in steps]).T
        guess = guess - np.linalg.lstsq(slopes, rest, rcond=None)[0]
    return [float(value) for value in np.exp(guess)]


def points(rows: Sequence[CopyRow], benchmark: str, scope: str) -> list[CopyRow]:
    return [each for each in rows if copy_fitted(each) and (each.benchmark, each.scope) == (benchmark, scope)]


def arrays(rows: Sequence[CopyRow]) -> tuple[Any, Any]:
    return np.array([each.num_bytes for each in rows], float), np.array([each.seconds for each in rows])


@pytest.mark.parametrize("name", ["lumi-g", "frontier"])
def test_link_classes_are_the_fit_of_1_and_32_mib(rows: tuple[CopyRow, ...], name: str) -> None:
    machine, inside = load_machine(name), points(rows, "osu_bw", "intra-node")
    assert len(inside) == 22
    for wires, link_class in (("4 links", "xgmi4"), ("2 links", "xgmi2"), ("1 link", "xgmi1")):
        num_bytes, seconds = arrays([each for each in inside if each.path_class == wires])
        rate, half = fitted(lambda b, h, s=num_bytes: (s + h) / b, [8e10, 1e6], seconds)
        link = machine.link_classes[link_class]
        assert (link.share * link.bytes_per_s, link.half_bytes) == pytest.approx((rate, half), rel=0.01)


def test_the_share_of_routed_copies_is_the_fit_of_pair_0_7(lumi: Machine, rows: tuple[CopyRow, ...]) -> None:
    num_bytes, seconds = arrays([each for each in points(rows, "osu_bw", "intra-node") if each.path_class == "routed"])
    link, copies = lumi.link_classes["xgmi2"], lumi.copies
    rate = link.share * link.bytes_per_s
    assert copies is not None
    (share,) = fitted(lambda r: (num_bytes / r + link.half_bytes) / rate, [0.9], seconds)
    assert copies.routed_share == pytest.approx(share, rel=0.01)


def test_messages_between_nodes_are_the_fit_of_every_other_size(lumi: Machine, rows: tuple[CopyRow, ...]) -> None:
    assert lumi.copies is not None
    for library in LIBRARIES:
        num_bytes, seconds = arrays([each for each in points(rows, "osu_bw", "inter-node") if each.library == library])
        gap, rate, half = fitted(lambda g, b, h, s=num_bytes: np.maximum(g, (s + h) / b), [7e-7, 2.35e10, 5e3], seconds)
        messages = lumi.copies.libraries[library]
        assert (messages.gap_s, messages.bytes_per_s, messages.half_bytes) == pytest.approx((gap, rate, half), rel=0.01)


def test_latencies_between_nodes_are_the_fit_of_every_other_size(lumi: Machine, rows: tuple[CopyRow, ...]) -> None:
    copies = lumi.copies
    assert copies is not None
    alone = points(rows, "osu_latency", "inter-node")
    late = [each.num_bytes >= copies.libraries[each.library].rendezvous_bytes for each in alone]
    num_bytes, seconds = arrays([each for each, agreed in zip(alone, late, strict=True) if not agreed])
    first, rate = fitted(lambda a, b: a + num_bytes / b, [3e-6, 1.4e10], seconds)
    assert (copies.eager_s, copies.eager_bytes_per_s) == pytest.approx((first, rate), rel=0.01)
    agreed = [each for each, is_late in zip(alone, late, strict=True) if is_late]
    sizes, seconds = arrays(agreed)
    rates = np.array([copies.libraries[each.library].bytes_per_s for each in agreed])
    (begin,) = fitted(lambda a: a + sizes / rates, [7e-6], seconds)
    assert copies.rendezvous_s == pytest.approx(begin, rel=0.01)


@pytest.mark.parametrize(("scope", "count", "bound"), [("intra-node", 14, 0.040), ("inter-node", 22, 0.035)])
def test_sizes_that_were_not_fitted_are_off_by_less_than_7_percent(
    rows: tuple[CopyRow, ...], scope: str, count: int, bound: float
) -> None:
    checked = held(rows, scope)
    errors = [abs(made.value / each.seconds - 1.0) for each, made in checked]
    assert len(errors) == count
    assert np.mean(errors) < bound < 0.07


@pytest.mark.parametrize("scope", ["intra-node", "inter-node"])
def test_the_spread_is_that_of_rows_that_were_not_fitted(lumi: Machine, rows: tuple[CopyRow, ...], scope: str) -> None:
    checked = held(rows, scope)
    logs = [math.log(made.value / each.seconds) for each, made in checked]
    assert copy_sd(lumi, checked[0][0]) == pytest.approx(float(np.sqrt(np.mean(np.square(logs)))), rel=0.02)


def test_intervals_cover_80_to_98_percent_of_what_was_not_fitted(rows: tuple[CopyRow, ...]) -> None:
    checked = held(rows, "intra-node") + held(rows, "inter-node")
    covered = [made.low <= each.seconds <= made.high for each, made in checked]
    assert 0.80 <= np.mean(covered) <= 0.98


def test_few_numbers_were_fitted(rows: tuple[CopyRow, ...]) -> None:
    """3 classes of 2, routed, engine; 2 libraries of 3, eager 2, rendezvous 1; spreads are of rows not fitted."""
    numbers = [number.key for number in load_machine("lumi-g").provenance() if number.kind == "fitted"]
    of_copies = [key for key in numbers if key.startswith(("copies.", "link_classes.")) and not key.endswith("_sd")]
    assert sum(copy_fitted(each) for each in rows) == 46
    assert len(of_copies) == 3 * 2 + 1 + 1 + 2 * 3 + 2 + 1
    assert not any(copy_fitted(each) for each in rows if each.benchmark in ("kernel_copy", "osu_bibw"))
