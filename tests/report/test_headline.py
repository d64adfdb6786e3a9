"""Every scenario's page leads with the median of its samples, inside its own band, and says the same everywhere."""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path

import pytest

from simfrontier.report.phrases import number
from simfrontier.scenario import load_scenario
from tests.invoke import invoke
from tests.report.test_page import Page
from tests.scenario_files import SCENARIOS, small_settings

RATE = re.compile(r"(\S+) (?:tokens|samples)/s per \w+(?: \(90 % interval (\S+) to (\S+)\))?")
SAMPLES = 25
SLOW = ("frontier-10b", "lassen-neox-20b")
SIZES = {"zeropp-v100": 64}  # no plan fits on fewer; the others run on 8, or on all where there are fewer


def led(text: str) -> tuple[str, str | None, str | None]:
    """The rate that a verdict leads with, and the ends of its band."""
    found = RATE.search(" ".join(text.replace("\u00a0", " ").split()))
    assert found, text
    rate, low, high = found.groups()
    return rate, low, high


def rate_of(row: dict[str, str], step: str) -> float:
    """Tokens per second and device where a step takes what this column of results.csv says, and not its nominal
    time."""
    nominal_rate = float(row["tokens_per_s_nominal"]) / int(row["devices"])
    return nominal_rate * float(row["step_time_nominal_s"]) / float(row[step])


@pytest.mark.parametrize(
    "path",
    [pytest.param(path, marks=pytest.mark.long if path.stem in SLOW else ()) for path in SCENARIOS],
    ids=lambda path: path.stem,
)
def test_the_headline_is_the_sampled_median_inside_its_band(path: Path, tmp_path: Path) -> None:
    """From results.csv, and not from the code that makes the headline; of devices that differ, the median of a step is
    not the nominal one, so that one in the place of the other is seen."""
    scenario = load_scenario(path)
    settings = [*small_settings(path.stem), f"uncertainty.samples={SAMPLES}"]
    given = [part for setting in settings for part in ("--set", setting)]
    size = str(SIZES.get(path.stem, min(8, scenario.machine.num_devices)))
    options = ("--devices", size, "--no-sensitivity", "--fidelity", "analytic", "--out", tmp_path)
    done = invoke("run", path, *options, *given)
    assert done.code == 0, done
    with (tmp_path / "results.csv").open(newline="", encoding="utf-8") as file:
        rows = {row["plan"]: row for row in csv.DictReader(file)}
    found = json.loads((tmp_path / "findings.json").read_text(encoding="utf-8"))["headline"]
    page = Page((tmp_path / "index.html").read_text(encoding="utf-8"))
    best = found["best"]
    row = rows[best["plan"]]
    middle = "step_time_p50_s" if row["step_time_p50_s"] else "step_time_nominal_s"
    rate = rate_of(row, middle)
    assert best["rate"] == float(row["tokens_per_s_per_device"]) == pytest.approx(rate, rel=1e-9)
    assert best["step_s"] == float(row["step_time_s"]) == float(row[middle])
    ends: tuple[str | None, str | None] = None, None
    if middle == "step_time_p50_s":
        low, high = rate_of(row, "step_time_p95_s"), rate_of(row, "step_time_p05_s")
        assert low <= best["rate"] <= high
        ends = number(low), number(high)
    wanted = number(rate), *ends
    section = page.section("headline")
    assert led(section) == wanted  # the verdict stands first
    assert f"{number(rate)} {found['rate_unit']}, {best['plan']}" in section.replace("\u00a0", " ")
    assert led(re.split(f"[Oo]n {size} {found['device_word']}s", done.out)[-1]) == wanted
    charts = json.loads(page.data["fig-rate"])
    drawn = next(figure for name, figure in charts.items() if name == found["rate_unit"])["data"]
    lines = [trace for trace in drawn if trace.get("name") == best["plan"] and len(trace["x"]) == 1]
    assert any(trace["y"][0] == pytest.approx(rate, rel=1e-6) for trace in lines)
