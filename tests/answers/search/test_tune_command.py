"""`simfrontier tune SCENARIO`: what it prints and writes, its best plans as a file, a stopped search that goes on."""

from __future__ import annotations

import csv
import tomllib
from pathlib import Path

import pytest

from simfrontier.answers.search import tune
from simfrontier.answers.search.outcome import best_document, best_toml
from simfrontier.answers.study import STORE, ScheduleCache, simulated, store_in
from simfrontier.core.engine.memory import fullest
from simfrontier.inputs.scenario import load_scenario
from tests.answers.search.toys import PINNED, PINS, toy_tuning, written
from tests.invoke import Ran, invoke

QUICK = (*PINNED, "--simulate", "5", "--jobs", "1")
FILES = ["best.toml", "index.html", "manifest.json", "results.csv"]


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Ran, Path]:
    folder = tmp_path_factory.mktemp("searched")
    return invoke("tune", written(folder), *QUICK, "--out", folder / "out", "--top", "2"), folder / "out"


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_the_best_plans_run_as_they_stand_bit_for_bit(searched: tuple[Ran, Path]) -> None:
    _, out = searched
    text = (out / "best.toml").read_text(encoding="utf-8")
    assert text.startswith("# The best plans that simfrontier ")
    scenario = load_scenario(out / "best.toml")
    assert [*scenario.plans] == ["best", "second", "third"] and scenario.file.run.devices == [8]
    schedule_cache = ScheduleCache()
    for row, plan in zip(rows(out), scenario.plans, strict=False):
        built = schedule_cache.get(scenario, plan, 8)
        step = simulated(scenario.of(plan, 8), built, "flow")
        assert step.step_s == float(row["step_time_nominal_s"])
        assert fullest(step, built.peaks).peak_bytes == int(row["peak_memory_bytes"])


def test_equal_input_gives_equal_bytes_for_any_number_of_processes(searched: tuple[Ran, Path], tmp_path: Path) -> None:
    _, out = searched
    ran = invoke("tune", out.parent / "toy-tune.toml", *QUICK[:-1], "2", "--out", tmp_path / "again")
    assert ran.code == 0, ran.err
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (out / name).read_bytes(), name


def test_a_search_that_was_stopped_goes_on(searched: tuple[Ran, Path], tmp_path: Path) -> None:
    _, out = searched

    def stopping(what: str, done: int, total: int) -> None:
        if what == "simulating the best" and done > 0:
            raise KeyboardInterrupt

    scenario = load_scenario(out.parent / "toy-tune.toml", laid_out=False)
    with pytest.raises(KeyboardInterrupt):
        tune(scenario, pins=PINS, simulate=5, folder=tmp_path / "out", progress=stopping)
    with store_in(tmp_path / "out") as store:
        assert len(store) > 2
    ran = invoke("tune", out.parent / "toy-tune.toml", *QUICK, "--out", tmp_path / "out")
    assert ran.code == 0, ran.err
    for name in FILES:
        assert (tmp_path / "out" / name).read_bytes() == (out / name).read_bytes(), name
    assert not (tmp_path / "out" / STORE).exists()


def test_the_file_says_what_the_document_has() -> None:
    outcome = toy_tuning()
    text = best_toml(outcome, Path("anywhere"))
    document = best_document(outcome, Path("anywhere"))
    assert tomllib.loads(text) == document
    assert [*document["plans"]] == ["best", "second", "third"] and document["training"] == {"batch": 16}
    assert f"# {outcome.best.candidate.name}: " in text
