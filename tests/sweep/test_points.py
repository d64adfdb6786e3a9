"""Points of a study: how many, in which order, with which values; the same each time."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from simfrontier.errors import InputError
from simfrontier.sweep import load_study
from tests.sweep.studies import ACCUM, HOOK, MICRO, document, scenario, study, write

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


def test_scenarios_come_one_after_the_other(tmp_path: Path) -> None:
    scenario(tmp_path, "other")
    made = study(tmp_path, {"key": MICRO, "values": [1, 2]}, scenarios=["small.toml", "other.toml"])
    found = [(Path(point.scenario).name, point.settings[MICRO]) for point in made.points()]
    assert found == [("small.toml", 1), ("small.toml", 2), ("other.toml", 1), ("other.toml", 2)]


def test_a_study_without_axes_has_a_point_for_each_scenario(tmp_path: Path) -> None:
    assert [dict(point.settings) for point in study(tmp_path).points()] == [{"uncertainty.samples": 0}]


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


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ({"range": {"from": 1, "to": 7, "step": 3}}, [1, 4, 7]),
        ({"range": {"from": 1, "to": 8.5, "step": 3}}, [1, 4, 7]),  # none above the end
        ({"range": {"from": 1, "to": 4, "count": 3}}, [1, 2, 4]),  # 2.5 is rounded to even
        ({"range": {"from": 1, "to": 2, "count": 5}}, [1, 2]),  # 1.25 and 1.5 are 1 and 2 again
        ({"log_range": {"from": 1, "to": 64, "count": 4}}, [1, 4, 16, 64]),
        ({"range": {"from": 3, "to": 3, "count": 1}}, [3]),
    ],
)
def test_whole_number_keys_get_whole_numbers(tmp_path: Path, axis: dict[str, Any], values: list[int]) -> None:
    found = values_of(study(tmp_path, {"key": MICRO, **axis}).points(), MICRO)
    assert found == values and all(type(value) is int for value in found)


@pytest.mark.parametrize(
    ("axis", "values"),
    [
        ({"range": {"from": 0.1, "to": 0.3, "step": 0.1}}, [0.1, 0.2, 0.3]),  # 0.1 + 2 × 0.1 is 0.30000000000000004
        ({"range": {"from": 1, "to": 0, "count": 3}}, [1.0, 0.5, 0.0]),
        ({"log_range": {"from": 1e-6, "to": 1e-3, "count": 4}}, [1e-6, 1e-5, 1e-4, 1e-3]),
        ({"log_range": {"from": 1e-3, "to": 1e-5, "count": 3}}, [1e-3, 1e-4, 1e-5]),
    ],
)
def test_other_keys_get_numbers_of_twelve_digits(tmp_path: Path, axis: dict[str, Any], values: list[float]) -> None:
    found = values_of(study(tmp_path, {"key": HOOK, **axis}).points(), HOOK)
    assert found == values and all(type(value) is float for value in found)


def test_keys_that_move_together_have_one_count(tmp_path: Path) -> None:
    rows = {"keys": [MICRO, ACCUM], "rows": [[1, 4], [2, 2], [4, 1]]}
    made = study(tmp_path, rows, {"key": HOOK, "values": [1e-6, 1e-5]})
    assert made.count == 6 and made.keys == (MICRO, ACCUM, HOOK)
    assert [(p.settings[MICRO], p.settings[ACCUM]) for p in made.points()][::2] == [(1, 4), (2, 2), (4, 1)]


def test_one_entry_stands_for_a_list_of_one(tmp_path: Path) -> None:
    made = study(tmp_path, {"key": "run.devices", "values": [2, 4, [2, 4]]}, filters=["run.devices in [2, 4]"])
    assert values_of(made.points(), "run.devices") == [2, 4]


# ── samples ──


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


def test_samples_of_one_axis_are_a_list_of_values(tmp_path: Path) -> None:
    samples = {"distribution": "uniform", "low": 0.0, "high": 1.0, "count": 4}
    made = study(tmp_path, {"key": HOOK, "samples": samples}, {"key": MICRO, "values": [1, 2]})
    assert made.count == 8 and len(set(values_of(made.points(), HOOK))) == 4
    other = study(tmp_path, {"key": HOOK, "samples": {**samples, "seed": 2}})
    assert set(values_of(made.points(), HOOK)).isdisjoint(values_of(other.points(), HOOK))


def test_whole_numbers_between_two_are_equally_likely_at_the_ends_too(tmp_path: Path) -> None:
    """Of 40 samples in 40 equal parts of 1 to 4: ten of each number."""
    made = study(tmp_path, {"key": MICRO, "between": [0.5, 4.9]}, sampling={"count": 40})
    values = values_of(made.points(), MICRO)
    assert {value: values.count(value) for value in values} == {1: 10, 2: 10, 3: 10, 4: 10}
    # in the logarithm, 1 has what is rounded to it: from 0.5 to 1.5, and 2 from 1.5 to 2.5
    made = study(tmp_path, {"key": MICRO, "between": [1, 2], "scale": "log"}, sampling={"count": 1000})
    share = math.log(1.5 / 0.5) / math.log(2.5 / 0.5)
    assert values_of(made.points(), MICRO).count(1) == pytest.approx(1000 * share, abs=1)
    with pytest.raises(InputError, match=r"no whole number from 1\.2 to 1\.8; allowed: ends with one between them"):
        study(tmp_path, {"key": MICRO, "between": [1.2, 1.8]}, sampling={"count": 4})


def test_whole_numbers_of_machines_and_libraries_are_sampled_as_such(tmp_path: Path) -> None:
    channels = "library.overrides.num_channels"
    made = study(tmp_path, {"key": channels, "between": [1, 4]}, sampling={"count": 8})
    assert sorted(values_of(made.points(), channels)) == [1, 1, 2, 2, 3, 3, 4, 4]


# ── filters ──


def test_filters_look_at_the_machine_of_the_point(tmp_path: Path) -> None:
    """The toy's machine has nodes of 4 devices, the other one of 8: the number is of neither axis nor scenario."""
    count = "machine.overrides.devices_per_node"
    names = {"key": "machine.name", "values": ["toy-quad", "frontier"]}
    every = [
        [point.settings["machine.name"] for point in study(tmp_path, names, filters=[f"{count} == {n}"]).points()]
        for n in (4, 8)
    ]
    assert every == [["toy-quad"], ["frontier"]]


def test_filters_see_the_last_of_two_settings_of_a_key(tmp_path: Path) -> None:
    """Both axes set ddp's accumulation; that of every plan comes later, and is what the point has."""
    one = {"key": "plans.ddp.grad_accum", "values": [1, 2]}
    every = {"key": "plans.*.grad_accum", "values": [3, 4]}
    points = list(study(tmp_path, one, every, filters=['key("plans.ddp.grad_accum") == 4']).points())
    assert [(p.settings["plans.ddp.grad_accum"], p.settings["plans.*.grad_accum"]) for p in points] == [(1, 4), (2, 4)]
    points = list(study(tmp_path, every, one, filters=['key("plans.ddp.grad_accum") == 2']).points())
    assert [p.settings["plans.*.grad_accum"] for p in points] == [3, 4]


def test_a_list_of_one_is_its_entry_in_a_filter(tmp_path: Path) -> None:
    made = study(tmp_path, {"key": "run.devices", "values": [[2], [4]]}, filters=["run.devices == 4"])
    assert values_of(made.points(), "run.devices") == [[4]]


# ── counting ──


def test_a_billion_points_are_counted_and_not_made(tmp_path: Path) -> None:
    axes = [{"key": key, "log_range": {"from": 1e-3, "to": 1.0, "count": 1000}} for key in (HOOK, LINK)]
    axes.append({"key": "library.overrides.shares.nic", "range": {"from": 0.001, "to": 1.0, "count": 1000}})
    made = study(tmp_path, *axes)
    assert made.count == 10**9
    with pytest.raises(InputError, match="1,000,000,000 points; allowed: up to 1,000,000"):
        made.refuse_many()


@pytest.mark.parametrize("step", [1e-9, 1e-300])
def test_an_axis_has_up_to_a_million_values(tmp_path: Path, step: float) -> None:
    with pytest.raises(InputError, match=r"axes\[0\].range.step: .* points; allowed: up to 1,000,000"):
        study(tmp_path, {"key": HOOK, "range": {"from": 0.0, "to": 1.0, "step": step}})
    with pytest.raises(InputError, match=r"sampling\.count: got 1000000000, allowed: at most 1000000"):
        study(tmp_path, {"key": HOOK, "between": [0.0, 1.0]}, sampling={"count": 10**9})


def test_what_is_set_for_all_points_may_stand_in_tables(tmp_path: Path) -> None:
    value = {**document(), "set": {"uncertainty": {"samples": 0}, "machine.overrides": {"host.hook_s": 1e-5}}}
    made = load_study(write(tmp_path, value))
    assert dict(made.settings) == {"uncertainty.samples": 0, HOOK: 1e-5}
