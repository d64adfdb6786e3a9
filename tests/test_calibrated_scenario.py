"""The scenario keys `mesh` and `library.calibration`: what they mean, where files are looked for, what is refused."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from simfrontier.collectives import Calibration, CallTable, MeasuredPoint, write_calibration
from simfrontier.errors import InputError
from simfrontier.scenario import load_scenario, scenario_of
from simfrontier.study import ScheduleCache, notes_of, run_case
from tests.invoke import ROOT, invoke, refusal

CROSSCHECK = ROOT / "scenarios" / "crosscheck.toml"
BUS = "link_classes.bus.bytes_per_s"
KNOWN = Calibration(
    title="gloo on test",
    where="test, 2 cores",
    when="2026-11-21",
    how="by hand",
    machine={"device.hbm_bytes_per_s": 7e9},
    library={"ring.base_s": 1e-3},
    calls=(
        CallTable(
            kind="all_gather",
            ranks=8,
            nodes=1,
            packages=8,
            points=(MeasuredPoint(bytes=1000, seconds=1e-6),),
            residual=0.1,
        ),
    ),
)


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    """The cross-check's scenario in a folder of its own, with a calibration beside it."""
    write_calibration(KNOWN, tmp_path / "cal.toml")
    return Path(shutil.copy(CROSSCHECK, tmp_path / "mine.toml"))


# ── calibration ──


def test_a_trace_notes_the_calibration_and_how_well_it_repeats(scenario: Path, tmp_path: Path) -> None:
    """Second measurements of the three tables lie 0.1, 0.3 and an unknown share apart: 0.2 in the median."""
    gather, reduction = KNOWN.calls[0], replace(KNOWN.calls[0], kind="all_reduce", residual=0.3)
    exchange = replace(KNOWN.calls[0], kind="all_to_all", residual=None)
    write_calibration(replace(KNOWN, calls=(gather, reduction, exchange)), tmp_path / "cal.toml")
    for name, calls, residual in (("cal.toml", 3, "0.2"), ("bare.toml", 0, None)):
        if not calls:
            write_calibration(replace(KNOWN, calls=()), tmp_path / name)
        notes = notes_of(load_scenario(scenario, {"library.calibration": name}))
        assert (notes["calibration"], notes.get("calibration_residual")) == (name, residual)
    assert notes_of(load_scenario(scenario)) == {"scenario": "crosscheck"}


def test_a_calibration_stands_beside_the_scenario(scenario: Path) -> None:
    loaded = load_scenario(scenario, {"library.calibration": "cal.toml"})
    assert loaded.machine.device.hbm_bytes_per_s == 7e9
    assert loaded.library.ring.base_s == 1e-3
    assert loaded.library.tables == {("all_gather", 8, 1, 8): KNOWN.calls[0]}
    # 1000 bytes in 1 us, 7/8 of it sent by each of 8 ranks
    assert loaded.machine.link_classes["bus"].bytes_per_s == pytest.approx(7e9, rel=1e-12)
    rows = {row.key: row for row in loaded.machine.provenance()}
    for key in ("device.hbm_bytes_per_s", BUS):
        assert (rows[key].kind, rows[key].source) == ("measured", "gloo on test: test, 2 cores, 2026-11-21")


def test_or_in_the_working_folder(scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (tmp_path / "cal.toml").rename(elsewhere / "far.toml")
    monkeypatch.chdir(elsewhere)
    assert load_scenario(scenario, {"library.calibration": "far.toml"}).library.ring.base_s == 1e-3


def test_overrides_of_the_scenario_win(scenario: Path) -> None:
    settings = {
        "library.calibration": "cal.toml",
        "machine.overrides.device.hbm_bytes_per_s": 1e9,
        "library.overrides.ring.base_s": 5e-3,
    }
    loaded = load_scenario(scenario, settings)
    assert (loaded.machine.device.hbm_bytes_per_s, loaded.library.ring.base_s) == (1e9, 5e-3)


def test_a_run_shows_what_was_measured(scenario: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = invoke("run", scenario, "--set", "library.calibration=cal.toml", "--plans", "zero3", "--out", out)
    assert (done.code, done.err) == (0, "")
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "Calibrated by cal.toml.</p>" in page
    assert "library.calls.all_gather.ranks_8_nodes_1_packages_8.of_1000_bytes_s" in page
    assert (
        page.count("gloo on test: test, 2 cores, 2026-11-21") == 4
    )  # one time, two of the machine, one of the library
    plain = tmp_path / "plain"
    assert invoke("run", scenario, "--plans", "zero3", "--out", plain).code == 0
    ours, theirs = (json.loads((folder / "manifest.json").read_text(encoding="utf-8")) for folder in (out, plain))
    for key in ("machine_sha256", "library_sha256"):
        assert ours["inputs"][key] != theirs["inputs"][key]
    assert ours["schedules"] == theirs["schedules"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"machine": {"device.hbm_byte_per_s": 1.0}},
            'box.toml, with a calibration: "device.hbm_byte_per_s" is not a number of this machine; did you mean '
            '"device.hbm_bytes_per_s"?',
        ),
        (
            {"machine": {BUS: 1e9}},
            f'machine."{BUS}": got 1e+09, allowed: at least 7e+09, the total rate of all_gather over 8 ranks',
        ),
        (
            {"machine": {"device.hbm_share": 2.0}},
            "box.toml, with a calibration: device.hbm_share.value: got 2.0, allowed: more than 0 and at most 1",
        ),
        (
            {"library": {"ring.bas_s": 1.0}},
            "gloo.toml: 'ring.bas_s' is not a number of this library; did you mean \"ring.base_s\"?",
        ),
        (
            {"library": {"num_channels": 1.5}},
            "gloo.toml, with a calibration: num_channels.value: got 1.5, allowed: a whole number",
        ),
    ],
)
def test_each_fault_of_what_a_calibration_says_is_one_line(
    scenario: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    write_calibration(replace(KNOWN, **changes), tmp_path / "cal.toml")
    got = refusal("run", scenario, "--set", "library.calibration=cal.toml", "--out", tmp_path / "out")
    assert got == f"{scenario}: library.calibration: {tmp_path}/cal.toml: {message}"
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no.toml", "library.calibration: no.toml: cannot read this calibration file: No such file or directory"),
        (
            "other.toml",
            "library.calibration: {folder}/other.toml: name: unknown key; allowed: calls, fit, harness, how, ",
        ),
        ("3", "library.calibration: got 3, allowed: a text"),
    ],
)
def test_a_file_that_is_no_calibration_is_one_line(scenario: Path, tmp_path: Path, name: str, message: str) -> None:
    shutil.copy(CROSSCHECK, tmp_path / "other.toml")
    got = refusal("check", scenario, "--set", f"library.calibration={name}")
    assert got.startswith(f"{scenario}: {message.format(folder=tmp_path)}")


# ── mesh ──


def document(machine: str, devices: int, **tables: Any) -> dict[str, Any]:
    return {
        "name": "cut",
        "title": "cut",
        "machine": {"name": machine},
        "model": {"name": "tiny"},
        "run": {"devices": [devices]},
        "engine": {"persistence_elements": 0},
        "plans": {"hsdp": {}, "zero3": {}},
        **tables,
    }


def test_the_plans_see_nodes_that_the_machine_does_not_have() -> None:
    scenario = load_scenario(CROSSCHECK)
    assert dict(scenario.mesh(8).axes) == {"node": 2, "package": 2, "gcd": 2}
    assert scenario.machine.num_nodes == 1


def row(scenario_document: dict[str, Any], plan: str = "hsdp") -> dict[str, Any]:
    scenario = scenario_of(scenario_document, "cut.toml")
    devices = scenario.file.run.devices[0]
    return run_case(scenario, plan, devices, "flow", exact=False, drawn=False, schedule_cache=ScheduleCache()).row


def test_bytes_are_counted_at_the_machines_boundaries() -> None:
    """On one host nothing goes between nodes, and nothing needs to, whatever the plans see."""
    cut = row(document("box", 8, mesh={"devices_per_node": 4, "devices_per_package": 2}))
    assert (cut["nodes"], cut["bytes_inter_node"], cut["need_inter_node"]) == (1, 0.0, 0.0)
    assert cut["bytes_intra_node"] > 0.0 and cut["bytes_package"] == 0.0


def test_what_is_needed_between_nodes_is_counted_where_a_node_is_a_node() -> None:
    # toy-cluster has nodes of four: on 8 devices, cut in the machine's way or not at all, the need is known; cut into
    # nodes of two it is not, since what enters such a node is not what enters the machine's
    plain = row(document("toy-cluster", 8))
    same = row(document("toy-cluster", 8, mesh={"devices_per_node": 4}))
    other = row(document("toy-cluster", 8, mesh={"devices_per_node": 2}))
    assert same == plain and plain["need_inter_node"] > 0
    assert (other["nodes"], other["need_inter_node"]) == (2, "")
    assert other["bytes_inter_node"] > 0


def test_volumes_leave_out_what_is_not_known(tmp_path: Path) -> None:
    options = ("--volumes", "--devices", "8", "--set", "mesh.devices_per_node=2")
    done = invoke("show", ROOT / "scenarios" / "toy.toml", "--plan", "zero3", *options)
    gathers = [line.split() for line in done.out.splitlines() if line.startswith(" weight_gather")]
    assert done.code == 0 and gathers and all(words[-3] == "–" for words in gathers)
    done = invoke("show", CROSSCHECK, "--volumes")
    assert done.code == 0 and "0 B 0 B" in " ".join(done.out.split()) and "ring_twice" in done.out


def test_a_perturbation_is_of_the_machines_nodes() -> None:
    broken = {"links": [{"node": 0, "link": "bus", "factor": 0.5}]}
    cut = {"devices_per_node": 4, "devices_per_package": 2}
    assert scenario_of(document("box", 8, mesh=cut, perturbation=broken), "cut.toml").file.perturbation
    broken["links"][0]["node"] = 1  # the mesh has two nodes, the machine one
    with pytest.raises(InputError) as caught:
        scenario_of(document("box", 8, mesh=cut, perturbation=broken), "cut.toml")
    assert (
        str(caught.value) == "cut.toml: perturbation: at 8 devices: link 'bus': got node 1; this job has nodes 0 to 0"
    )


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "mesh.devices_per_node=3",
            "mesh: got 3 devices per node and 2 per package, allowed: a divisor of the 8 devices of box, and a divisor "
            "of that",
        ),
        ("mesh.devices_per_node=0", "mesh.devices_per_node: got 0, allowed: at least 1"),
        ("mesh.nodes=2", "mesh.nodes: unknown key; allowed: devices_per_node, devices_per_package"),
        (
            "run.devices=[6]",
            "run.devices: 6 devices do not fill whole nodes of box (2 nodes of 4 devices, as mesh cuts its 8 devices), "
            "use 4 or 8",
        ),
    ],
)
def test_each_fault_of_a_mesh_is_one_line(setting: str, message: str) -> None:
    assert refusal("check", CROSSCHECK, "--set", setting) == f"{CROSSCHECK}: {message}"


def test_the_links_of_the_box_can_be_listed() -> None:
    done = invoke("show", CROSSCHECK, "--links")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[1].split() == ["bus", "bus", "2", "GB/s", "1.000"]
