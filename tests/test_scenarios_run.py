"""Every scenario runs; its folder holds exactly what is promised; the same input gives the same bytes."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import pytest

from simfrontier.errors import InputError
from simfrontier.scenario import load_scenario
from tests.invoke import ROOT, TOY, invoke, refusal
from tests.scenario_files import SCENARIOS, small_settings
from tests.some import some

COLUMNS = [
    *("scenario", "plan", "devices", "nodes", "micro_batch", "grad_accum", "step_time_s", "compute_time_s"),
    *("exposed_comm_s", "tflops_per_device", "mfu", "tokens_per_s", "bytes_package", "bytes_intra_node"),
    *("bytes_inter_node", "peak_memory_bytes", "fits", "scaling_efficiency", "speedup"),
]
TIMES = ("step_time_s", "compute_time_s", "exposed_comm_s", "tflops_per_device", "mfu", "tokens_per_s")
RATIOS = ("scaling_efficiency", "speedup")
PLANS = ["zero3", "ddp", "zero1", "zero2", "hsdp", "zeropp", "zero-topo", "my-own"]
SIZES = ["2", "4", "8", "16"]
Rows = list[dict[str, str]]


def content(folder: Path) -> dict[str, bytes]:
    """Every file below a folder by its path."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def rows_of(folder: Path) -> Rows:
    with (folder / "results.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def ran(out: Path, *more: str, scenario: Path = TOY) -> Rows:
    """The rows of a run that must succeed."""
    done = invoke("run", scenario, "--out", out, *more)
    said = [
        line for line in done.err.splitlines() if not re.search(r" done, \d+ s$", line)
    ]  # progress of slow machines
    assert (done.code, said) == (0, []), done
    return rows_of(out)


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the toy scenario, run in full."""
    folder = tmp_path_factory.mktemp("toy")
    ran(folder)
    return folder


# ── what is written ──


def test_the_folder_holds_exactly_what_is_promised(toy: Path) -> None:
    traces = {f"trace-{plan}-16.json" for plan in PLANS}
    assert set(content(toy)) == {"results.csv", "findings.json", "index.html", "manifest.json", *traces}


def test_columns_stand_in_the_order_of_the_contract(toy: Path) -> None:
    head = (toy / "results.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert head[: len(COLUMNS)] == COLUMNS
    assert len(set(head)) == len(head)


def test_there_is_one_row_per_plan_and_size_in_the_scenarios_order(toy: Path) -> None:
    assert [(row["plan"], row["devices"]) for row in rows_of(toy)] == [(p, n) for p in PLANS for n in SIZES]
    assert {row["scenario"] for row in rows_of(toy)} == {"toy"}
    assert [row["nodes"] for row in rows_of(toy)[:4]] == ["1", "1", "2", "4"]


def test_the_manifest_holds_the_digest_of_every_row(toy: Path) -> None:
    manifest = json.loads((toy / "manifest.json").read_text(encoding="utf-8"))
    known = {(row["plan"], row["devices"]): row["schedule_digest"] for row in rows_of(toy)}
    assert known == {(plan, n): digest for plan, sizes in manifest["schedules"].items() for n, digest in sizes.items()}


def test_traces_are_of_the_largest_size_and_carry_its_digest(toy: Path) -> None:
    largest = {row["plan"]: row["schedule_digest"] for row in rows_of(toy) if row["devices"] == "16"}
    for plan in PLANS:
        trace = json.loads((toy / f"trace-{plan}-16.json").read_text(encoding="utf-8"))
        assert trace["otherData"]["schedule_digest"] == largest[plan]
        assert any(event["ph"] == "X" for event in trace["traceEvents"])


def test_a_step_is_compute_and_what_is_exposed(toy: Path) -> None:
    for row in some(rows_of(toy)):
        step, compute, exposed = (float(row[key]) for key in TIMES[:3])
        assert step == pytest.approx(compute + exposed, rel=1e-12)
        assert step >= float(row["bound_s"]) * (1 - 1e-9)
        parts = sum(
            float(row[f"exposed_{part}_s"])
            for part in ("inter_node", "intra_node", "package", "codec", "idle", "variation")
        )
        assert parts == pytest.approx(exposed, rel=1e-9, abs=1e-12)


def test_efficiency_is_against_the_smallest_size_and_speedup_against_the_first_plan(toy: Path) -> None:
    rate = {(row["plan"], row["devices"]): float(row["tflops_per_device"]) for row in rows_of(toy)}
    for row in some(rows_of(toy)):
        own = rate[row["plan"], row["devices"]]
        assert float(row["scaling_efficiency"]) == pytest.approx(own / rate[row["plan"], "2"], rel=1e-12)
        assert float(row["speedup"]) == pytest.approx(own / rate["zero3", row["devices"]], rel=1e-12)


# ── the same input, the same bytes ──


def test_the_same_input_gives_the_same_bytes(toy: Path, tmp_path: Path) -> None:
    ran(tmp_path)
    assert content(tmp_path) == content(toy)


def test_two_processes_give_the_same_bytes_as_one(toy: Path, tmp_path: Path) -> None:
    ran(tmp_path, "--jobs", "2")
    assert content(tmp_path) == content(toy)


def test_rows_as_json_are_the_rows_of_the_table(toy: Path, tmp_path: Path) -> None:
    done = invoke("run", TOY, "--out", tmp_path, "--plans", "zero3,ddp", "--no-page", "--json")
    printed = json.loads(done.out)
    assert [list(row)[: len(COLUMNS)] for row in printed] == [COLUMNS] * 8
    written = [row for row in rows_of(toy) if row["plan"] in ("zero3", "ddp")]
    assert [row["step_time_s"] for row in printed] == [float(row["step_time_s"]) for row in written]
    assert [row["bytes_inter_node"] for row in printed] == [float(row["bytes_inter_node"]) for row in written]


# ── options ──


def test_exact_equals_folded(toy: Path, tmp_path: Path) -> None:
    folded = {(row["plan"], row["devices"]): row for row in rows_of(toy)}
    for row in some(ran(tmp_path, "--exact", "--no-page", "--devices", "4,8")):
        like = folded[row["plan"], row["devices"]]
        assert row["rank_classes"] == row["devices"]
        assert int(like["rank_classes"]) < int(row["rank_classes"])
        for key in ("step_time_s", "compute_time_s", "bytes_package", "bytes_intra_node", "bytes_inter_node"):
            assert float(row[key]) == pytest.approx(float(like[key]), rel=1e-9, abs=1e-15), (row["plan"], key)
        assert row["schedule_digest"] == like["schedule_digest"]


def test_analytic_has_no_contention(toy: Path, tmp_path: Path) -> None:
    flow = {(row["plan"], row["devices"]): row for row in rows_of(toy)}
    for row in some(ran(tmp_path, "--fidelity", "analytic", "--no-page")):
        like = flow[row["plan"], row["devices"]]
        assert (row["fidelity"], like["fidelity"]) == ("analytic", "flow")
        assert float(row["step_time_s"]) <= float(like["step_time_s"]) * (1 + 1e-9)
        assert row["bytes_inter_node"] == like["bytes_inter_node"]


def test_cyclic_placement_sends_what_was_within_a_node_between_nodes(toy: Path, tmp_path: Path) -> None:
    block = {row["plan"]: row for row in rows_of(toy) if row["devices"] == "8"}
    cyclic = {row["plan"]: row for row in ran(tmp_path, "--set", "run.placement=cyclic", "--devices", "8", "--no-page")}
    for plan in ("hsdp", "zeropp", "zero-topo", "my-own"):  # these have groups within a node
        assert float(cyclic[plan]["bytes_inter_node"]) > float(block[plan]["bytes_inter_node"])
        assert float(cyclic[plan]["step_time_s"]) > float(block[plan]["step_time_s"])
        assert cyclic[plan]["schedule_digest"] == block[plan]["schedule_digest"]


def test_a_slow_device_slows_the_step_and_splits_the_classes(toy: Path, tmp_path: Path) -> None:
    healthy = next(row for row in rows_of(toy) if (row["plan"], row["devices"]) == ("zero3", "8"))
    options = ("--plans", "zero3", "--devices", "8", "--no-page")
    (slow,) = ran(tmp_path, *options, "--set", "perturbation={ slow = [{ device = 5, factor = 0.5 }] }")
    assert float(slow["step_time_s"]) > float(healthy["step_time_s"])
    assert int(slow["rank_classes"]) > int(healthy["rank_classes"])


def test_a_family_that_the_scenario_does_not_list_can_be_run(tmp_path: Path) -> None:
    small = tmp_path / "small.toml"
    text = TOY.read_text(encoding="utf-8")
    small.write_text(text[: text.index("[plans.zero3]")] + "[plans.zero3]\n", encoding="utf-8")
    rows = ran(tmp_path / "out", "--plans", "ddp", "--devices", "2,4", "--no-page", scenario=small)
    assert [(row["plan"], row["devices"], row["speedup"]) for row in rows] == [("ddp", "2", "1.0"), ("ddp", "4", "1.0")]


# ── what does not fit ──


def test_what_does_not_fit_has_no_times_and_says_what_would_fit(tmp_path: Path) -> None:
    rows = ran(tmp_path, "--plans", "ddp,zero3", "--set", "machine.overrides.device.hbm_bytes=1.5e6")
    table = {(row["plan"], int(row["devices"])): row for row in rows}
    for (plan, size), row in table.items():
        assert row["fits"] == str(float(row["peak_memory_bytes"]) <= 1.5e6).lower()
        if row["fits"] == "true":
            assert row["note"] == "" and all(row[key] for key in TIMES)
            continue
        assert {key: row[key] for key in (*TIMES, *RATIOS, "bound_s")} == dict.fromkeys(
            (*TIMES, *RATIOS, "bound_s"), ""
        )
        assert row["note"].startswith("needs ") and " of 1.5 MB (" in row["note"]
        assert float(row["peak_memory_bytes"]) > 0 and row["schedule_digest"], (plan, size)
    assert table["ddp", 8]["note"].endswith("; at 8 devices these fit: zero3")
    fitting = [size for plan, size in table if plan == "zero3" and table[plan, size]["fits"] == "true"]
    for size in fitting:  # the first plan does not fit, so there is nothing to compare with
        assert table["zero3", size]["speedup"] == ""
        own = float(table["zero3", size]["tflops_per_device"]) / float(table["zero3", fitting[0]]["tflops_per_device"])
        assert math.isclose(float(table["zero3", size]["scaling_efficiency"]), own, rel_tol=1e-12)


def test_where_nothing_fits_it_is_said(tmp_path: Path) -> None:
    options = ("--plans", "ddp", "--devices", "2,4", "--set", "machine.overrides.device.hbm_bytes=1000")
    for row in ran(tmp_path, *options):
        assert row["note"].endswith("; no plan of this scenario fits at this size")
    assert set(content(tmp_path)) == {"results.csv", "findings.json", "index.html", "manifest.json"}


def test_a_plan_that_fits_at_other_sizes_says_from_where_on(tmp_path: Path) -> None:
    rows = ran(tmp_path, "--plans", "zero3", "--no-page", "--set", "machine.overrides.device.hbm_bytes=1.4e6")
    assert [row["fits"] for row in rows] == ["false", "true", "true", "true"]
    assert rows[0]["note"].endswith("; this plan fits from 4 devices on")


# ── the folder stays whole ──


def test_an_earlier_runs_results_are_replaced_and_other_files_stay(tmp_path: Path) -> None:
    ran(tmp_path, "--plans", "zero3,ddp", "--devices", "2")
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    ran(tmp_path, "--plans", "zero3", "--devices", "4", "--no-page")
    assert set(content(tmp_path)) == {
        "results.csv",
        "findings.json",
        "manifest.json",
        "trace-zero3-4.json",
        "notes.txt",
    }


def test_a_refused_run_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    ran(tmp_path, "--plans", "zero3", "--devices", "2")
    before = content(tmp_path)
    message = refusal(
        "run", TOY, "--out", tmp_path, "--plans", "zero3,hsdp", "--set", "plans.hsdp.gradient_codec=int8:64"
    )
    assert "plans.hsdp: at 8 devices: step_reduction" in message
    assert content(tmp_path) == before


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_cannot_be_written_leaves_the_folder_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    out = tmp_path / "out"
    if there:
        ran(out, "--plans", "zero3", "--devices", "2")
    before = content(tmp_path)

    def full(_: object, folder: Path) -> None:
        raise InputError("cannot be written: No space left on device", where=str(folder / "manifest.json"))

    monkeypatch.setattr("simfrontier.report.write_manifest", full)
    message = refusal("run", TOY, "--out", out, "--plans", "ddp", "--devices", "4")
    assert message == f"{out}/manifest.json: cannot be written: No space left on device"
    assert content(tmp_path) == before
    assert out.exists() == there


def test_what_cannot_be_replaced_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "results.csv").mkdir()
    message = refusal("run", TOY, "--out", tmp_path, "--plans", "zero3", "--devices", "2", "--no-page")
    assert message.startswith(f"--out {tmp_path}: cannot be written: Is a directory; allowed: ")
    assert [file.name for file in tmp_path.iterdir()] == ["results.csv"]


def test_every_plan_is_built_before_the_first_is_simulated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("simulated before all plans were built")

    monkeypatch.setattr("simfrontier.study.step.simulate_step", never)
    settings = ("--set", "plans.hsdp.gradient_codec=int8:64")
    message = refusal("run", TOY, "--out", tmp_path / "out", *settings)
    assert "plans.hsdp: at 8 devices: step_reduction" in message


# ── all scenarios ──


@pytest.mark.parametrize(
    ("path", "fidelity"),
    [
        (path, fidelity)
        for path, fidelity in zip(
            (path for path in SCENARIOS if path != TOY), ["analytic", "flow"] * len(SCENARIOS), strict=False
        )
    ],
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_every_scenario_runs(path: Path, fidelity: str, tmp_path: Path) -> None:
    room = load_scenario(path).machine.num_devices
    sizes = [size for size in ("8", "16") if int(size) <= room]
    settings = [part for setting in small_settings(path.stem) for part in ("--set", setting)]
    options = ("--devices", ",".join(sizes), "--no-sensitivity", "--fidelity", fidelity, *settings)
    rows = ran(tmp_path, *options, scenario=path)
    plans = list(dict.fromkeys(row["plan"] for row in rows))
    assert [(row["plan"], row["devices"]) for row in rows] == [(plan, n) for plan in plans for n in sizes]
    assert any(row["fits"] == "true" for row in rows)
    fits = {row["plan"] for row in rows if row["devices"] == sizes[-1] and row["fits"] == "true"}
    traces = {f"trace-{plan}-{sizes[-1]}.json" for plan in fits}
    rare = {"slowdown.csv"} if load_scenario(path).file.slowdown is not None else set()
    assert set(content(tmp_path)) == {"results.csv", "findings.json", "index.html", "manifest.json", *rare, *traces}


# ── what is printed ──


def test_the_terminal_has_the_samples_beside_the_nominal_rate_and_no_stray_dots(tmp_path: Path) -> None:
    done = invoke("run", TOY, "--plans", "zero3,ddp", "--devices", "8", "--no-page", "--out", tmp_path)
    lines = re.findall(r"^  (\S+) +(\S+) \((\S+) to (\S+)\), nominal (\S+)$", done.out, re.M)
    assert [line[0] for line in lines] == ["zero3", "ddp"]
    for _, *cells in lines:
        middle, low, high, _ = (float(cell.replace(",", "")) for cell in cells)
        assert low < middle < high
    assert re.findall(r"\d\.(?!\d)(?=[ │;)])", done.out) == []


def test_a_library_of_another_machine_is_said_to_be_one(tmp_path: Path) -> None:
    file = ROOT / "scenarios" / "frontier-20b.toml"
    some = ("--plans", "hsdp", "--devices", "8", "--set", "uncertainty.samples=0", "--out", tmp_path)
    message = "nccl was fitted on perlmutter; nothing holds it on frontier."
    assert message in invoke("run", file, *some, "--set", "library.name=nccl").out
    assert message in (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "fitted on" not in invoke("run", file, *some, "--no-page").out
