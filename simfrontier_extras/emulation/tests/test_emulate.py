"""`simfrontier emulate`: what it refuses before any work, and a tiny machine simulated and run, with all its files."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from simfrontier.core.trace import load_links, read_perfetto
from simfrontier_extras.emulation.job_file import load_changes, load_jobs
from simfrontier_extras.emulation.limits import load_run
from simfrontier_extras.emulation.real import fabric
from simfrontier_extras.emulation.tests.emulations import QUICK, command, tiny
from simfrontier_extras.emulation.wiring import load_wiring
from tests.invoke import TOY, invoke, refusal

LACKING = fabric.missing()
in_fabric = pytest.mark.skipif(bool(LACKING), reason=f"no emulated fabric here: {'; '.join(LACKING)}")


# A machine whose devices take next to no time, and whose links carry 0.1 MB/s in packets of 1500 bytes.
LINKS_ONLY = """
overrides = { "device.hbm_bytes_per_s" = 1e13, "device.matmul_flops_per_s" = 2e14, "device.peak_flops_per_s" = 2e14 }
[emulation]
scale = 1e-5
packet_bytes = 1500
burst_bytes = 3100
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    return tiny(tmp_path)


# ── refused before the work ──


def test_a_scenario_without_an_emulation_is_refused(tmp_path: Path) -> None:
    message = refusal("emulate", TOY, "--out", tmp_path / "out")
    assert message.startswith(f"{TOY}: emulation: missing; allowed: a table ")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--slow", "nic9>net"), "--slow: a node of toy-cluster: got 'nic9>net'; did you mean \"nic1>net\"?"),
        (("--set", "emulation.burst_bytes=100"), "emulation.burst_bytes: got 100, allowed: at least a packet, 9014"),
        (
            ("--set", "perturbation.links=[{node=0, link='xgmi 0>1', factor=0.1, from_s=1.0}]"),
            "perturbation: got troubles with times; allowed: some that always are",
        ),
        (
            ("--set", "perturbation.spread=[{of='kernels', distribution='normal', sd=0.1}]"),
            "perturbation.spread: got calls that differ; allowed: devices and networks that do",
        ),
        (
            ("--set", "machine.name=box"),
            "box joins its devices by a bus; allowed: a machine with node.links or node.switch",
        ),
    ],
)
def test_what_cannot_be_emulated_is_refused_in_one_line(
    tmp_path: Path, scenario: Path, options: tuple[str, ...], message: str
) -> None:
    assert message in refusal("emulate", scenario, *options, "--json", "--out", tmp_path / "out")
    assert not (tmp_path / "out" / "jobs.json").exists()


# ── simulated, not run ──


def prepared(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> None:
    """All but the run itself."""
    monkeypatch.setattr("simfrontier_extras.emulation.command._run", lambda jobs: None)
    monkeypatch.setattr("simfrontier_extras.emulation.command.report", lambda *_: True)
    ran = invoke("emulate", *arguments)
    assert ran.code == 0, ran.err


def step_seconds(trace: Path) -> float:
    return max(span.end_s for spans in read_perfetto(trace).spans for span in spans)


def test_the_jobs_are_those_that_the_real_side_reads(
    tmp_path: Path, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    prepared(monkeypatch, scenario, *QUICK, "--slow", "xgmi 0>1", "--out", out)
    file = load_jobs(out / "jobs.json")
    wiring, jobs = load_wiring(out / file.wiring), file.jobs
    assert [(job.out, job.collectives) for job in jobs] == [
        ("plans/real", "lowered"),
        ("sweep-lowered/real", "lowered"),
        ("sweep-native/real", "native"),
        ("slow/real", "lowered"),
        ("dip/real", "lowered"),
    ]
    assert all((out / schedule).exists() for job in jobs for schedule in job.schedules)
    assert [dict(job.rates) for job in jobs] == [{}, {}, {}, {"node 0 xgmi 0>1": 0.5}, {}]
    assert not any(job.changes for job in jobs[:-1])
    step_s = step_seconds(out / "plans/sim/trace-zero3.json")
    slower, back = jobs[-1].changes
    assert (slower.at_s, back.at_s) == pytest.approx((step_s / 3, 2 * step_s / 3))
    assert slower.rates == pytest.approx({"node 0 xgmi 0>1": 0.1}) and back.rates == {"node 0 xgmi 0>1": 1.0}
    assert set(jobs[-2].rates) <= {cable.name for cable in wiring.cables}
    assert wiring.ranks == tuple(f"node 0 gcd {gcd}" for gcd in range(4))
    simulated = {link.name for link in load_links(out / "plans/sim/links-zero3.json").links}
    assert simulated == {cable.name for cable in wiring.cables}
    assert {cable.bytes_per_s for cable in wiring.cables if cable.link_class == "xgmi"} == {2e6}  # 10 GB/s × 2e-4


def test_what_is_wrong_with_the_machine_stays_so_when_a_wire_is_slowed(
    tmp_path: Path, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A ring of four with one wire at a tenth: it decides, whatever becomes of another. That wire at half of it takes
    twice as long, but for what it lets through at once."""
    degraded = "perturbation.links=[{node=0, link='xgmi 1>2', factor=0.1}]"
    took = {}
    for wire in ("xgmi 2>1", "xgmi 1>2"):
        prepared(monkeypatch, scenario, *QUICK, "--set", degraded, "--slow", wire, "--out", tmp_path / wire)
        for job in ("sweep-lowered", "slow"):
            gather = read_perfetto(tmp_path / wire / job / "sim" / "trace-sweep.json").spans[0][0]
            took[wire, job] = gather.end_s - gather.start_s
    plain = took["xgmi 2>1", "sweep-lowered"]
    assert took["xgmi 2>1", "slow"] == pytest.approx(plain)
    assert 1.6 * plain < took["xgmi 1>2", "slow"] <= 2.0 * plain + 18200 / 1e5


# ── run ──


@in_fabric
def test_a_tiny_machine_is_simulated_run_and_reported(tmp_path: Path, scenario: Path) -> None:
    pytest.importorskip("torch")
    out = tmp_path / "out"
    done = subprocess.run(command(scenario, out, "--json"), capture_output=True, text=True, timeout=180.0)
    result = json.loads(done.stdout)
    limits = {limit["what"]: limit for limit in result["limits"]}
    assert done.returncode == (0 if all(limit["holds"] for limit in limits.values()) else 1), done.stderr
    assert [line.split()[0] for line in done.stderr.splitlines()] == ["Simulating", "Running"]
    assert limits["the same operations ran in both"]["holds"] and result["verdict"]["exact"]
    # what is counted is what is simulated, link by link, but for acknowledgements: 66 bytes per packet of 9014 at most
    swept = [load_links(out / "sweep-lowered" / side / "links-sweep.json") for side in ("sim", "real")]
    assert swept[0].digest == swept[1].digest
    simulated, counted = ({link.name: link.num_bytes for link in table.links} for table in swept)
    assert simulated.keys() == counted.keys() and max(simulated.values()) > 9e5
    for name, num_bytes in simulated.items():
        assert abs(counted[name] - num_bytes) <= 0.015 * num_bytes, name
    points = load_run(out / "plans/real/emulated.json").sweep
    assert {(point.collectives, point.group) for point in points} == {
        (way, group) for way in ("lowered", "native") for group in ("node (4)", "package (2)")
    }
    # half of the message passes the one cable between two members, but for a burst not faster than it may
    own = [point for point in points if point.group == "package (2)"]
    assert all(point.real_s > (point.message_bytes / 2 - 18200) / 2e6 for point in own), own
    (plan, *collectives, dipped) = load_run(out / "plans/real/emulated.json").slowed
    assert (dipped.what, dipped.link, dipped.factor) == ("step of zero3", "node 0 xgmi 0>1", 0.1)
    assert (plan.what, len(collectives), plan.link) == ("step of zero3", 3, "node 0 xgmi 0>1")
    gather = next(each for each in collectives if each.what == "all-gather over node (4)")
    assert gather.real_effect > 1.15 and gather.sim_effect > 1.15
    page = (out / "index.html").read_text(encoding="utf-8")
    assert 'id="limits"' in page and 'id="slowed"' in page and "node 0 xgmi 0&gt;1" in page
    assert not list(out.rglob(".*")) and not list(out.rglob("*.part"))


@in_fabric
def test_a_link_at_a_tenth_for_the_middle_third_of_a_step(tmp_path: Path, scenario: Path) -> None:
    """The network bounds the step, so that a noisy computer matters little: kernels take hardly any time."""
    pytest.importorskip("torch")
    out, text = tmp_path / "out", scenario.read_text(encoding="utf-8")
    plain = "[emulation]\nscale = 2e-4\n"
    slow = text.replace(plain, "").replace('name = "toy-cluster"\n', f'name = "toy-cluster"{LINKS_ONLY}')
    scenario.write_text(slow, encoding="utf-8")
    sizes = ("--sizes", "4KiB", "--iterations", "3", "--json")
    done = subprocess.run(command(scenario, out, *sizes), capture_output=True, text=True, timeout=180.0)
    result = json.loads(done.stdout)
    *_, dipped = load_run(out / "plans/real/emulated.json").slowed
    assert dipped.begin_s == pytest.approx(dipped.sim_s / 3)
    assert dipped.real_s == pytest.approx(dipped.sim_s, rel=0.1)
    assert dipped.real_slowed_s == pytest.approx(dipped.sim_slowed_s, rel=0.1)
    assert min(dipped.sim_effect, dipped.real_effect) > 1.25, dipped
    made = load_changes(out / "dip/real/changes.json")
    assert [change.rates["node 0 xgmi 0>1"] for change in made] == pytest.approx([0.1, 1.0] * 3)
    assert all(0.0 <= change.made_s - change.planned_s < 0.2 for change in made), made
    assert len(result["changes"]) == len(made)


# ── doctor ──
