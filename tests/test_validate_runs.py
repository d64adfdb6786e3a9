"""`simfrontier validate` of training runs: JSON, the page, and one line for what cannot be read."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from simfrontier.accuracy.published_runs.table import TABLE
from tests.invoke import invoke, refusal


def some(tmp_path: Path, *numbers: int, **changed: str) -> Path:
    """A file of these rows of the shipped table, with cells changed in the last one."""
    with TABLE.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    chosen = [dict(rows[number]) for number in numbers]
    chosen[-1].update(changed)
    path = tmp_path / "mine.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(chosen)
    return path


def test_json_has_every_row_in_its_own_unit(tmp_path: Path) -> None:
    ran = invoke("validate", some(tmp_path, 24, 135, 181, 186), "--json")
    assert ran.code == 0
    document = json.loads(ran.out)
    assert [row["unit"].split(" ")[0] for row in document["rows"]] == [
        "tokens/s/GPU",
        "s/iteration",
        "TFLOPS/GPU",
        "tokens/s/GPU",
    ]
    for row in document["rows"]:
        assert row["low"] < row["predicted"] < row["high"]
        assert row["error"] == pytest.approx(row["predicted"] / row["value"] - 1)
        assert row["why"] == ""
    assert document["num_expressed"] == document["num_rows"] == 4


def test_a_row_without_a_prediction_says_why_and_the_others_are_there(tmp_path: Path) -> None:
    path = some(tmp_path, 24, 27, unit="bananas")
    document = json.loads(invoke("validate", "--data", path, "--json").out)
    first, second = document["rows"]
    assert first["predicted"] is not None
    assert (second["predicted"], second["low"], second["high"]) == (None, None, None)
    assert "no rule knows what it counts" in second["why"]
    said = invoke("validate", path).out
    assert "1 of 2 runs have a prediction." in said
    assert "no rule knows what it counts" in said


@pytest.mark.parametrize(
    ("column", "text", "why"),
    [
        ("machine", "the cloud", "no rule knows it"),
        ("plan", "tp 3", "does not divide 8 devices"),
        ("model_shape", "our model", "no rule finds model.num_layers"),
        ("model_shape", "Mixtral 8x7B L=32 h=4096", "a mixture of experts"),
        ("plan", "FSDP 8 x CP 8", "context parallelism"),
        ("devices", "some", 'devices: got "some", allowed: a whole number of 1 or more'),
        ("value", "fast", 'value: got "fast", allowed: what was measured, a number above 0'),
    ],
)
def test_reasons_name_the_column(column: str, text: str, why: str, tmp_path: Path) -> None:
    changed = {column: text, "machine_as_told": ""} if column == "machine" else {column: text}
    document = json.loads(invoke("validate", some(tmp_path, 24, **changed), "--json").out)
    assert why in document["rows"][0]["why"]
    assert "\n" not in document["rows"][0]["why"]


def test_the_page_names_runs_and_the_farthest_off(tmp_path: Path) -> None:
    ran = invoke("validate", some(tmp_path, 24, 135, 181), "--out", tmp_path / "out")
    assert ran.code == 0
    page = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert "The ten farthest off" in page
    assert "selene: GPT 18B, tp 8 pp 1 dp 32, 1F1B, 256 devices" in page
    assert "fig-runs" in page


def test_bad_files_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text("model_shape,plan,unit\na,b,c\n", encoding="utf-8")
    assert "machine" in refusal("validate", path)
    times = tmp_path / "times.csv"
    times.write_text("machine,collective\nfrontier,all_gather\n", encoding="utf-8")
    assert "allowed: files of one sort" in refusal("validate", some(tmp_path, 24), times)
    assert "--machine: got 'frontier' beside training runs" in refusal(
        "validate", some(tmp_path, 24), "--machine", "frontier"
    )
