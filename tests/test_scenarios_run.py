"""Every scenario runs; its folder holds exactly what is promised; the same input gives the same bytes."""

from __future__ import annotations

import csv
import json
import math
import re
from pathlib import Path

import pytest

from simfrontier.inputs.scenario import load_scenario
from simfrontier.interfaces.report.phrases import number
from tests.interfaces.report.test_page import Page
from tests.invoke import TOY, invoke
from tests.scenario_files import SCENARIOS, small_settings
from tests.some import some

COLUMNS = [
    *("scenario", "plan", "devices", "nodes", "micro_batch", "grad_accum", "step_time_s", "compute_time_s"),
    *("exposed_comm_s", "tflops_per_device", "mfu", "tokens_per_s", "bytes_package", "bytes_intra_node"),
    *("bytes_inter_node", "peak_memory_bytes", "host_memory_bytes", "fits", "scaling_efficiency", "speedup"),
]
TIMES = ("step_time_s", "compute_time_s", "exposed_comm_s", "tflops_per_device", "mfu", "tokens_per_s")
RATIOS = ("scaling_efficiency", "speedup")
PLANS = ["zero3", "ddp", "zero1", "zero2", "hsdp", "zeropp", "zero-topo", "my-own"]
FILES = {"results.csv", "findings.json", "index.html", "manifest.json"}
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


# ── what is written ──


def test_the_folder_holds_exactly_what_is_promised(toy_run: Path) -> None:
    traces = {f"trace-{plan}-16.json" for plan in PLANS}
    assert set(content(toy_run)) == {*FILES, *traces}


def test_columns_stand_in_the_order_of_the_contract(toy_run: Path) -> None:
    head = (toy_run / "results.csv").read_text(encoding="utf-8").splitlines()[0].split(",")
    assert head[: len(COLUMNS)] == COLUMNS
    assert len(set(head)) == len(head)


def test_the_manifest_holds_the_digest_of_every_row(toy_run: Path) -> None:
    manifest = json.loads((toy_run / "manifest.json").read_text(encoding="utf-8"))
    known = {(row["plan"], row["devices"]): row["schedule_digest"] for row in rows_of(toy_run)}
    assert known == {(plan, n): digest for plan, sizes in manifest["schedules"].items() for n, digest in sizes.items()}


def test_traces_are_of_the_largest_size_and_carry_its_digest(toy_run: Path) -> None:
    largest = {row["plan"]: row["schedule_digest"] for row in rows_of(toy_run) if row["devices"] == "16"}
    for plan in PLANS:
        trace = json.loads((toy_run / f"trace-{plan}-16.json").read_text(encoding="utf-8"))
        assert trace["otherData"]["schedule_digest"] == largest[plan]
        assert any(event["ph"] == "X" for event in trace["traceEvents"])


def test_a_step_is_compute_and_what_is_exposed(toy_run: Path) -> None:
    for row in some(rows_of(toy_run)):
        step, compute, exposed = (float(row[key]) for key in TIMES[:3])
        assert step == pytest.approx(compute + exposed, rel=1e-12)
        assert step >= float(row["bound_s"]) * (1 - 1e-9)
        parts = sum(
            float(row[f"exposed_{part}_s"])
            for part in ("inter_node", "intra_node", "package", "codec", "host", "idle", "variation")
        )
        assert parts == pytest.approx(exposed, rel=1e-9, abs=1e-12)


def test_efficiency_is_against_the_smallest_size_and_speedup_against_the_first_plan(toy_run: Path) -> None:
    rate = {(row["plan"], row["devices"]): float(row["tflops_per_device"]) for row in rows_of(toy_run)}
    for row in some(rows_of(toy_run)):
        own = rate[row["plan"], row["devices"]]
        assert float(row["scaling_efficiency"]) == pytest.approx(own / rate[row["plan"], "2"], rel=1e-12)
        assert float(row["speedup"]) == pytest.approx(own / rate["zero3", row["devices"]], rel=1e-12)


# ── the same input, the same bytes ──


def test_two_processes_give_the_same_bytes_as_one(tmp_path: Path) -> None:
    for jobs in ("1", "2"):
        ran(tmp_path / jobs, "--plans", "zero3,zeropp", "--devices", "4,8", "--jobs", jobs)
    assert content(tmp_path / "2") == content(tmp_path / "1")


# ── options ──


def test_exact_equals_folded(toy_run: Path, tmp_path: Path) -> None:
    folded = {(row["plan"], row["devices"]): row for row in rows_of(toy_run)}
    for row in some(ran(tmp_path, "--exact", "--no-page", "--plans", "zero3,hsdp,zero-topo", "--devices", "8")):
        like = folded[row["plan"], row["devices"]]
        assert row["rank_classes"] == row["devices"]
        assert int(like["rank_classes"]) < int(row["rank_classes"])
        for key in ("step_time_s", "compute_time_s", "bytes_package", "bytes_intra_node", "bytes_inter_node"):
            assert float(row[key]) == pytest.approx(float(like[key]), rel=1e-9, abs=1e-15), (row["plan"], key)
        assert row["schedule_digest"] == like["schedule_digest"]


def test_analytic_has_no_contention(toy_run: Path, tmp_path: Path) -> None:
    flow = {(row["plan"], row["devices"]): row for row in rows_of(toy_run)}
    for row in some(ran(tmp_path, "--fidelity", "analytic", "--no-page", "--devices", "8")):
        like = flow[row["plan"], row["devices"]]
        assert (row["fidelity"], like["fidelity"]) == ("analytic", "flow")
        assert float(row["step_time_s"]) <= float(like["step_time_s"]) * (1 + 1e-9)
        assert row["bytes_inter_node"] == like["bytes_inter_node"]


def test_cyclic_placement_sends_what_was_within_a_node_between_nodes(toy_run: Path, tmp_path: Path) -> None:
    block = {row["plan"]: row for row in rows_of(toy_run) if row["devices"] == "8"}
    options = ("--plans", "hsdp,zeropp,zero-topo,my-own", "--devices", "8", "--no-page")  # groups within a node
    cyclic = {row["plan"]: row for row in ran(tmp_path, "--set", "run.placement=cyclic", *options)}
    for plan in some(cyclic):
        assert float(cyclic[plan]["bytes_inter_node"]) > float(block[plan]["bytes_inter_node"])
        assert float(cyclic[plan]["step_time_s"]) > float(block[plan]["step_time_s"])
        assert cyclic[plan]["schedule_digest"] == block[plan]["schedule_digest"]


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


# ── all scenarios ──

RATE = re.compile(r"(\S+) (?:tokens|samples)/s per \w+(?: \(90 % interval (\S+) to (\S+)\))?")
LARGER = {"zeropp-v100": 64}  # no plan fits on fewer


def leading(text: str) -> tuple[str, str | None, str | None]:
    """The rate that a verdict leads with, and the ends of its 90 % interval."""
    found = RATE.search(" ".join(text.replace("\u00a0", " ").split()))
    assert found, text
    rate, low, high = found.groups()
    return rate, low, high


def rate_of(row: dict[str, str], step: str) -> float:
    """Tokens per second and device, were the step as long as this column says."""
    nominal_rate = float(row["tokens_per_s_nominal"]) / int(row["devices"])
    return nominal_rate * float(row["step_time_nominal_s"]) / float(row[step])


def has_one_headline(folder: Path, out: str, size: int) -> None:
    """Terminal, page and findings lead with the median of the samples that results.csv has, and with its interval by
    the errors of published runs, which contains that of the samples."""
    found = json.loads((folder / "findings.json").read_text(encoding="utf-8"))["headline"]
    best = found["best"]
    row = next(row for row in rows_of(folder) if (row["plan"], row["devices"]) == (best["plan"], str(size)))
    middle = "step_time_p50_s" if row["step_time_p50_s"] else "step_time_nominal_s"
    rate = rate_of(row, middle)
    assert best["tokens_per_s_per_device"] == float(row["tokens_per_s_per_device"]) == pytest.approx(rate, rel=1e-9)
    assert best["step_time_s"] == float(row["step_time_s"]) == float(row[middle])
    low, high = found["interval"]
    ends = number(low), number(high)
    assert low < rate < high
    if middle == "step_time_p50_s":
        assert low <= rate_of(row, "step_time_p95_s") * (1 + 1e-9)
        assert high >= rate_of(row, "step_time_p05_s") * (1 - 1e-9)
    page = Page((folder / "index.html").read_text(encoding="utf-8"))
    assert leading(page.section("headline")) == (number(rate), *ends)
    assert leading(re.split(f"[Oo]n {size} {found['device_word']}s", out)[-1]) == (number(rate), *ends)


@pytest.mark.parametrize(
    ("path", "fidelity"),
    list(zip(SCENARIOS, ["analytic", "flow"] * len(SCENARIOS), strict=False)),
    ids=lambda value: value.stem if isinstance(value, Path) else "",
)
def test_every_scenario_runs(path: Path, fidelity: str, tmp_path: Path) -> None:
    scenario = load_scenario(path)
    size = LARGER.get(path.stem, min(8, scenario.machine.num_devices))
    settings = [*small_settings(path.stem), "uncertainty.samples=25"]
    given = [word for setting in settings for word in ("--set", setting)]
    options = ("--devices", str(size), "--no-sensitivity", "--fidelity", fidelity, *given, "--out", tmp_path)
    done = invoke("run", path, *options)
    assert done.code == 0, done
    rows = rows_of(tmp_path)
    assert {row["devices"] for row in rows} == {str(size)} and len({row["plan"] for row in rows}) == len(rows)
    fits = {row["plan"] for row in rows if row["fits"] == "true"}
    rare = {"slowdown.csv"} if scenario.file.slowdown is not None else set()
    traces = {f"trace-{plan}-{size}.json" for plan in fits}
    assert fits and set(content(tmp_path)) == {*FILES, *rare, *traces}
    has_one_headline(tmp_path, done.out, size)
