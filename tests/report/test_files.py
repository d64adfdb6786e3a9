"""results.csv and manifest.json: their columns, their digests, and what happens where they cannot be written."""

import csv
import json
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.report import write_manifest, write_results
from simfrontier.report.manifest import manifest
from simfrontier.study import COLUMNS
from tests.report.studies import study

CONTRACT = [
    *("scenario", "plan", "devices", "nodes", "micro_batch", "grad_accum", "step_time_s", "compute_time_s"),
    *("exposed_comm_s", "tflops_per_device", "mfu", "tokens_per_s", "bytes_package", "bytes_intra_node"),
    *("bytes_inter_node", "peak_memory_bytes", "fits", "scaling_efficiency", "speedup"),
]


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_columns_are_the_contract_then_more(tmp_path: Path) -> None:
    write_results(study(), tmp_path / "results.csv")
    head = (tmp_path / "results.csv").read_text().splitlines()[0].split(",")
    assert head == [*COLUMNS] and head[: len(CONTRACT)] == [*CONTRACT]


def test_floats_come_back_as_they_were(tmp_path: Path) -> None:
    write_results(study(), tmp_path / "results.csv")
    read = rows(tmp_path / "results.csv")
    assert [float(row["step_time_s"]) for row in read] == [outcome.row["step_time_s"] for outcome in study().outcomes]
    assert [(row["plan"], int(row["devices"])) for row in read] == [(o.plan, o.devices) for o in study().outcomes]


def test_times_are_empty_where_a_plan_does_not_fit(tmp_path: Path) -> None:
    write_results(study(2e6), tmp_path / "results.csv")
    read = {(row["plan"], row["devices"]): row for row in rows(tmp_path / "results.csv")}
    assert [read["ddp", "8"][key] for key in ("fits", "step_time_s", "speedup")] == ["false", "", ""]
    assert read["zero3", "8"]["fits"] == "true"


def test_the_manifest_holds_inputs_versions_and_digests(tmp_path: Path) -> None:
    write_manifest(study(), tmp_path)
    read = json.loads((tmp_path / "manifest.json").read_text(encoding="utf-8"))
    assert list(read) == ["scenario", "file", "fidelity", "inputs", "settings", "versions", "schedules"]
    assert list(read["versions"]) == ["simfrontier", "python", "numpy", "simpy", "plotly"]
    assert set(read["schedules"]) == {"zero3", "ddp", "zeropp"}
    assert read["schedules"]["ddp"]["8"] == study().outcomes[3].row["schedule_digest"]
    assert read["file"] == "report-test.toml"


def test_the_manifest_is_the_same_every_time_and_follows_the_settings(tmp_path: Path) -> None:
    write_manifest(study(), tmp_path)
    before = (tmp_path / "manifest.json").read_bytes()
    write_manifest(study(), tmp_path)
    assert (tmp_path / "manifest.json").read_bytes() == before
    changed, same = manifest(study(2e6))["inputs"], manifest(study())["inputs"]
    stacks = {"stack_deepspeed_sha256", "stack_fsdp1-flash2_sha256"}  # of the plans; the other study names none
    assert {key for key in same if changed.get(key) != same[key]} == {"scenario_sha256", "machine_sha256", *stacks}


@pytest.mark.parametrize("name", ["results.csv", "manifest.json"])
def test_a_folder_that_is_not_there_is_one_line(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "missing"
    with pytest.raises(InputError) as caught:
        write_results(study(), folder / name) if name == "results.csv" else write_manifest(study(), folder)
    assert str(caught.value) == (
        f"{folder / name}: cannot be written: No such file or directory; allowed: a file in a folder you may write"
    )


def test_a_folder_in_the_place_of_the_file_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "results.csv").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        write_results(study(), tmp_path / "results.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["results.csv"]
