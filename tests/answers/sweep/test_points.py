"""Points of a study: how many, in which order, with which values, which filters leave, and how long --until goes on."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simfrontier.answers.sweep import load_study
from simfrontier.answers.sweep.keys import parse_filter
from simfrontier.base.errors import InputError
from tests.answers.sweep.studies import ACCUM, HOOK, MICRO, study
from tests.invoke import ROOT

SLOWLY = settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
LINK = "machine.overrides.link_classes.nic.bytes_per_s"


def values_of(points: Any, key: str) -> list[Any]:
    return [point.settings[key] for point in points]


def test_axes_multiply_and_the_last_moves_first(tmp_path: Path) -> None:
    made = study(tmp_path, {"key": MICRO, "values": [1, 2]}, {"key": ACCUM, "values": [1, 2, 3]})
    points = list(made.points())
    assert made.count == 6 and [point.number for point in points] == list(range(6))
    assert [(point.settings[MICRO], point.settings[ACCUM]) for point in points] == [
        *((1, 1), (1, 2), (1, 3), (2, 1), (2, 2), (2, 3))
    ]
    assert all(point.settings["uncertainty.samples"] == 0 for point in points)
    assert all(point.scenario == str(tmp_path / "small.toml") for point in points)


@given(counts=st.lists(st.integers(1, 4), max_size=4), bound=st.integers(1, 20))
@SLOWLY
def test_the_count_is_the_product_and_filters_keep_the_order(tmp_path: Path, counts: list[int], bound: int) -> None:
    keys = (MICRO, ACCUM, "model.checkpoint_every", "run.steps")
    axes = [{"key": key, "values": list(range(1, n + 1))} for key, n in zip(keys, counts, strict=False)]
    made = study(tmp_path, *axes, filters=[f"{MICRO} * {ACCUM} <= {bound}"])
    plain = study(tmp_path, *axes)
    every = list(plain.points())
    assert plain.count == made.count == len(every) == math.prod(counts)
    kept = [p.settings for p in every if p.settings.get(MICRO, 1) * p.settings.get(ACCUM, 1) <= bound]
    points = list(made.points())
    assert [point.settings for point in points] == kept
    assert [point.number for point in points] == list(range(len(kept)))
    assert list(load_study(tmp_path / "study.toml").points()) == every


@given(count=st.integers(1, 40), seed=st.integers(0, 9), num_axes=st.integers(1, 3))
@SLOWLY
def test_a_latin_hypercube_has_a_sample_in_each_part_of_every_axis(
    tmp_path: Path, count: int, seed: int, num_axes: int
) -> None:
    keys = (HOOK, LINK, "library.overrides.shares.nic")[:num_axes]
    axes = [{"key": key, "between": [0.25, 0.75]} for key in keys]
    made = study(tmp_path, *axes, sampling={"count": count, "seed": seed})
    points = list(made.points())
    assert made.count == len(points) == count
    for key in keys:
        parts = sorted(int((value - 0.25) / 0.5 * count * (1 - 1e-9)) for value in values_of(points, key))
        assert parts == list(range(count))


def test_samples_go_together_and_multiply_with_the_grid(tmp_path: Path) -> None:
    axes = [{"key": HOOK, "between": [1e-6, 1e-4], "scale": "log"}, {"key": MICRO, "values": [1, 2]}]
    axes.append({"key": LINK, "samples": {"distribution": "normal", "mean": 1e9, "sd": 1e8, "low": 1.0}})
    made = study(tmp_path, *axes, sampling={"count": 5, "seed": 3})
    assert made.count == 10 and made.keys == (HOOK, LINK, MICRO)
    points = list(made.points())
    assert len({(point.settings[HOOK], point.settings[LINK]) for point in points}) == 5
    assert values_of(points, MICRO) == [1, 2] * 5


@pytest.mark.parametrize("method", ["latin-hypercube", "random", "sobol"])
def test_seeds_say_which_samples(tmp_path: Path, method: str) -> None:
    def sampled(seed: int) -> list[float]:
        sampling = {"method": method, "count": 7, "seed": seed}
        return values_of(study(tmp_path, {"key": HOOK, "between": [0.0, 1.0]}, sampling=sampling).points(), HOOK)

    assert sampled(1) == sampled(1) != sampled(2)
    assert all(0 <= value <= 1 for value in sampled(1))


def test_filters_look_at_the_machine_of_the_point(tmp_path: Path) -> None:
    """The toy's machine has nodes of 4 devices, the other one of 8: the number is of neither axis nor scenario."""
    count = "machine.overrides.devices_per_node"
    names = {"key": "machine.name", "values": ["toy-quad", "frontier"]}
    every = [
        [point.settings["machine.name"] for point in study(tmp_path, names, filters=[f"{count} == {n}"]).points()]
        for n in (4, 8)
    ]
    assert every == [["toy-quad"], ["frontier"]]


POINT = {"a": 3, "b.c": 0.5, "name": "x", "on": True, "sizes": [2, 4], "plans.zero-topo.publish": "flat"}


def holds(text: str) -> bool:
    return parse_filter(text).holds(POINT.__getitem__)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a == 3", True),
        ("a * b.c <= 1.5", True),
        ("1 < a <= 3", True),
        ("a // 2 == 1 and a % 2 == 1", True),
        ("not on or a > 5", False),
        ("on == true and false == False", True),
        ("name in ['x', 'y']", True),
        ("name not in ('x', 'y')", False),
        ("min(a, 7, b.c) == 0.5 and max(a, 7) == 7 and abs(-a) == 3", True),
        ("key('plans.zero-topo.publish') == 'flat'", True),
        ("sizes == [2, 4]", True),
    ],
)
def test_a_filter_computes_as_python_would(text: str, value: bool) -> None:
    assert holds(text) is value


@given(a=st.integers(-9, 9), b=st.integers(-9, 9), c=st.integers(1, 9))
def test_arithmetic_and_orders_are_those_of_python(a: int, b: int, c: int) -> None:
    text = "a + b * 2 <= c or (a - b) % c == 1 and not a // c < b"
    lookup: dict[str, Any] = {"a": a, "b": b, "c": c}
    assert parse_filter(text).holds(lookup.__getitem__) == (a + b * 2 <= c or ((a - b) % c == 1 and not a // c < b))


@given(st.text(max_size=60))
def test_any_text_is_a_filter_or_refused_in_one_line(text: str) -> None:
    try:
        parse_filter(text)
    except InputError as error:
        assert "\n" not in str(error)


STUDIES = ROOT / "scenarios" / "studies"
WHOLE = 75_264


@pytest.mark.parametrize(
    ("name", "ways", "sizes"), [("frontier-whole-machine", 5, 12), ("frontier-whole-machine-175b", 3, 5)]
)
def test_a_study_has_every_way_at_every_size_to_the_whole_machine(name: str, ways: int, sizes: int) -> None:
    study = load_study(name)
    points = list(study.points())
    assert len(points) == study.count == ways * sizes
    assert points[sizes - 1].settings["run.devices"] == [WHOLE]


def test_groups_of_the_grids_divide_every_size() -> None:
    for point in load_study(STUDIES / "frontier-whole-machine-175b.toml").points():
        assert point.settings["run.devices"][0] % 128 == 0
