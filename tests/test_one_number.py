"""One number: every place shows the same rate of a plan at a size."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

import simfrontier as sf
from simfrontier.inputs.scenario import Scenario, load_scenario
from simfrontier.interfaces.live.answer import Answerer
from simfrontier.interfaces.live.state import LiveState
from simfrontier.interfaces.report.phrases import number
from tests.invoke import ROOT, invoke

QUICK = ("toy",)
SCENARIOS = sorted(path.stem for path in (ROOT / "scenarios").glob("*.toml"))
RATE = "tokens_per_s_per_device"


def size_of(scenario: Scenario) -> int:
    """The size at which its plans are varied; of others the smallest."""
    table = scenario.file.sensitivity
    return min(scenario.file.run.devices) if table is None else max(table.sizes)


def rates_of_csv(path: Path) -> dict[str, float]:
    with path.open(encoding="utf-8", newline="") as file:
        return {row["plan"]: float(row[RATE]) for row in csv.DictReader(file) if row["fits"] == "true"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.long) for name in SCENARIOS]
)
def test_every_place_shows_the_same_rate(name: str, tmp_path: Path) -> None:
    path = ROOT / "scenarios" / f"{name}.toml"
    size = size_of(load_scenario(path))
    scenario = load_scenario(path, devices=(size,))
    said = invoke("run", path, "--devices", str(size), "--out", tmp_path / "run").out
    wanted = rates_of_csv(tmp_path / "run" / "results.csv")

    words = " ".join(said.split())
    page = (tmp_path / "run" / "index.html").read_text(encoding="utf-8")
    found = json.loads((tmp_path / "run" / "findings.json").read_text(encoding="utf-8"))
    for plan, rate in wanted.items():
        assert f"{plan} {number(rate)} (" in words or f" {number(rate)} " in words
        assert number(rate) in page
        assert [row[RATE] for row in found["rows"][plan]] == [rate]

    printed = json.loads(invoke("run", path, "--devices", str(size), "--out", tmp_path / "json", "--json").out)
    rows = printed if isinstance(printed, list) else printed["results"]
    assert {row["plan"]: row[RATE] for row in rows if row["fits"]} == wanted

    table = sf.compare(scenario).frame()
    assert dict(zip(table["plan"], table[RATE], strict=True)) == pytest.approx(
        {plan: wanted.get(plan, float("nan")) for plan in scenario.plans}, rel=1e-12, nan_ok=True
    )

    varied = found["sensitivity"]
    if varied is not None:
        (at,) = [each for each in varied["sizes"] if each["devices"] == size]
        assert at["default"]["rates"] == {plan: wanted.get(plan) for plan in varied["plans"]}

    with Answerer(scenario, jobs=1) as answerer:
        shown = json.loads(answerer.answer(LiveState(places={})))
    assert {each["plan"]: each["rate"] for each in shown["plans"] if each["fits"]} == pytest.approx(wanted, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "size", "pins"),
    [
        ("toy", 8, ("family=zero",)),
        pytest.param("frontier-10b", 64, ("family=zero",), marks=pytest.mark.long),
    ],
)
def test_the_winner_of_a_search_has_the_rate_of_its_run(
    name: str, size: int, pins: tuple[str, ...], tmp_path: Path
) -> None:
    path, out = ROOT / "scenarios" / f"{name}.toml", tmp_path / "tuned"
    pinned = [word for pin in pins for word in ("--pin", pin)]
    invoke("tune", path, "--devices", str(size), *pinned, "--out", out, "--jobs", "1", "--no-page")
    with (out / "results.csv").open(encoding="utf-8", newline="") as file:
        steps = [float(row["step_time_s"]) for row in csv.DictReader(file) if row["known"] == "simulated"]
    table = sf.compare(out / "best.toml").frame()
    assert list(table["step_time_s"]) == steps[: len(table)]
