"""What a changed file is given to: every reader of simfrontier, and what comes first after it."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from simfrontier.errors import SimfrontierError
from simfrontier.extras import added
from simfrontier.wholefile import MANIFEST, MARK, refuse_unfinished
from tests.fuzz.reader import Reader, command
from tests.fuzz.samples import DIGEST
from tests.invoke import TOY
from tests.report import sweeps

STUDIED = 20_000  # points of a study that are made: more take seconds
SMALL_S = 3.0  # a scenario that is forecast to take longer is read and laid out, and not simulated


class HalfWritten(Exception):
    """A folder that is neither old, nor new, nor told as unfinished."""


def _show(path: Path, _: random.Random) -> None:
    command("show", path)


def _check(path: Path, _: random.Random) -> None:
    command("check", path)


def _replay(path: Path, _: random.Random) -> None:
    command("replay", path, "--scenario", TOY)


def _run(path: Path, rng: random.Random) -> None:
    """A scenario: read, forecast, and simulated where that is a small job; then its folder is looked at."""
    from simfrontier.forecast import forecast_run
    from simfrontier.scenario import load_scenario

    loaded = load_scenario(path)
    if rng.random() < 0.5 or forecast_run(loaded, None, False, False).seconds > SMALL_S:
        return
    out = path.parent / "out"
    shutil.rmtree(out, ignore_errors=True)
    code = command("run", path, "--no-sensitivity", "--no-page", "--out", out)
    if code == 0:
        whole(out)
    elif out.exists():
        raise HalfWritten(f"exit code {code}, and {sorted(os.listdir(out))} in the folder")


def whole(folder: Path) -> None:
    """Raise HalfWritten unless the folder holds what its manifest lists, and nothing that is on its way."""
    there = set(os.listdir(folder))
    listed = set(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]) if MANIFEST in there else None
    if listed is None or not listed <= there or any(name.startswith((".new", ".part", MARK)) for name in there):
        raise HalfWritten(f"{sorted(there)}, where the manifest lists {listed and sorted(listed)}")


def _machine(path: Path, rng: random.Random) -> None:
    _with(path, rng, machine=path.name)


def _library(path: Path, rng: random.Random) -> None:
    _with(path, rng, library=path.name)


def _stack(path: Path, rng: random.Random) -> None:
    _with(path, rng, stack=path.name)


def _runs(path: Path, _: random.Random) -> None:
    command("validate", path, "--json")


def _rules(path: Path, _: random.Random) -> None:
    from simfrontier.accuracy.published_runs.rules import RulesFile, told
    from simfrontier.accuracy.published_runs.table import read_runs
    from simfrontier.io import read_toml, typed

    rules = typed(read_toml(path, "readings"), RulesFile, str(path)).rules
    for run in read_runs()[::40]:
        told(run, rules)


def _with(
    path: Path,
    rng: random.Random,
    machine: str = "toy-cluster",
    library: str | None = None,
    stack: str | None = None,
) -> None:
    """A scenario that names the file as its machine, library or stack."""
    text = TOY.read_text(encoding="utf-8").replace('name = "toy-cluster"', f'name = "{machine}"')
    text = text.replace("devices = [2, 4, 8, 16]", "devices = [8]").partition("[plans.ddp]")[0]
    if library is not None:
        text += f'\n[library]\nname = "{library}"\n'
    if stack is not None:
        text = text.replace('stack = "none"', f'stack = "{stack}"')
    scenario = path.parent / "with.toml"
    scenario.write_text(text, encoding="utf-8")
    _run(scenario, rng)


def _calibration(path: Path, _: random.Random) -> None:
    from simfrontier.collectives.calibration import load_calibration

    load_calibration(path)


def _measured(path: Path, _: random.Random) -> None:
    from simfrontier.measured import Setup, readings

    readings([path], Setup(machine="frontier", library="rccl", devices=16, nodes=None, packages=None))


def _trace(path: Path, _: random.Random) -> None:
    from simfrontier.trace import read_perfetto

    read_perfetto(path)


def _topology(path: Path, _: random.Random) -> None:
    from simfrontier.machine import read_topology

    topology = read_topology(path)
    for level in range(3):
        assert len(topology.groups(level)) == len(topology.switch_of)


def _kineto(path: Path, rng: random.Random) -> None:
    """A job's trace, as one that stands for all ranks: read, and simulated where it has few of them."""
    from simfrontier.kineto import on_ranks, platform_of, read_job, replayed

    if rng.random() < 0.05:
        command("import", path, "--machine", "perlmutter", "--stand-in", "--ranks", "2x")
    job = read_job([path], stand_in=True, devices_per_node=4)
    if job.schedule.mesh.num_ranks <= 64:
        platform = platform_of("perlmutter", {}, "--machine")
        replayed(job, platform, "analytic" if rng.random() < 0.7 and not job.times else "flow")
        on_ranks(job, 2 * job.schedule.mesh.num_ranks)


def _topology_xml(path: Path, rng: random.Random) -> None:
    """A node's XML: told, then as a machine file, which is loaded, and as the XML of that machine."""
    from simfrontier.machine import load_machine
    from simfrontier.topology import machine_document, machine_text, read_node, topology_of, xml_text

    if rng.random() < 0.2:
        command("topology", path)
    topology = read_node(path)
    base = rng.choice(["frontier", "perlmutter", "a100-node", "toy-quad"])
    made = path.parent / "made.toml"
    made.write_text(
        machine_text(machine_document(topology, base, "made", "x.xml").document, ("Made.",)), encoding="utf-8"
    )
    try:
        machine = load_machine(str(made))
    except SimfrontierError as error:
        raise AssertionError(f"a machine file that is made of an XML is refused: {error}") from None
    path.write_text(xml_text(topology_of(machine, topology.arch), machine.device.num_compute_units), encoding="utf-8")
    assert read_node(path).links == topology.links


def _links(path: Path, _: random.Random) -> None:
    from simfrontier.trace.links import load_links

    load_links(path)


def _lowered(path: Path, _: random.Random) -> None:
    from simfrontier.collectives.lowering.store import load_lowered

    load_lowered(path)


def _setting(path: Path, _: random.Random) -> None:
    text = path.read_bytes().decode("utf-8", "replace").replace("\0", "")
    command("check", TOY, "--plans", "zero3", "--devices", "8", "--set", text)


def _store(path: Path, _: random.Random) -> None:
    """A store of results, damaged: what a search has left that was stopped."""
    from simfrontier.study import STORE, store_in

    folder = path.parent / "tuned"
    folder.mkdir(exist_ok=True)
    (folder / STORE).write_bytes(path.read_bytes())
    try:
        with store_in(folder) as store:
            for number in range(3):
                store.get(f"{DIGEST} outline plan {number}")
    finally:
        shutil.rmtree(folder)


def _study(path: Path, _: random.Random) -> None:
    """A study: read and counted; its first points are made, and given their digests."""
    from itertools import islice

    from simfrontier.experiments import Digests
    from simfrontier.sweep import load_study

    scenario = path.parent / TOY.name
    if not scenario.exists():
        shutil.copy(TOY, scenario)
    study = load_study(path)
    if study.count <= STUDIED:
        digests = Digests()
        for point in islice(study.points(), 3):
            assert len(digests.of(study.setting_of(point))) == 64


def _sweep_rows(path: Path, rng: random.Random) -> None:
    _sweep_page(path.parent, rng, "rows.parquet", path.read_bytes())


def _sweep_manifest(path: Path, rng: random.Random) -> None:
    _sweep_page(path.parent, rng, MANIFEST, path.read_bytes())


def _sweep_page(beside: Path, rng: random.Random, name: str, content: bytes) -> None:
    """A sweep's folder with one file changed: what is found in it and, at times, its page."""
    from simfrontier.report.findings.sweep import sweep_findings
    from simfrontier.report.sweep import sweep_page

    folder = beside / "swept"
    if not folder.exists():
        sweeps.write(folder, sweeps.sampled(3))
    before = (folder / name).read_bytes() if (folder / name).exists() else None
    (folder / name).write_bytes(content)
    try:
        found = sweep_findings(folder)
        if rng.random() < 0.2:
            sweep_page(found)
    finally:
        if before is None:
            (folder / name).unlink()
        else:
            (folder / name).write_bytes(before)


def _killed(path: Path, rng: random.Random) -> None:
    """A run that is killed at any moment leaves the old folder, a new one, or one that is told as unfinished."""
    out = path.parent / "killed"
    shutil.rmtree(out, ignore_errors=True)
    words = ["run", str(TOY), "--no-page", "--no-sensitivity", "--out", str(out)]
    assert command(*words, "--plans", "zero3", "--devices", "4") == 0
    before = _digest(out)
    started = subprocess.Popen(
        [sys.executable, "-m", "simfrontier", *words, "--plans", "ddp,zero1", "--devices", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        started.wait(rng.uniform(0.05, 4.0))
    except subprocess.TimeoutExpired:
        started.send_signal(signal.SIGKILL)
        started.wait()
    if _digest(out) == before:
        return
    try:
        refuse_unfinished(out)
    except SimfrontierError:
        return
    if not any(name.startswith(".new") for name in os.listdir(out)):  # which the next run takes away
        whole(out)


def _digest(folder: Path) -> str:
    names = sorted(name for name in os.listdir(folder) if not name.startswith("."))
    return sha256(b"\0".join(name.encode() + (folder / name).read_bytes() for name in names)).hexdigest()


READERS: dict[str, Reader] = {
    "schedule-check": Reader(kind="schedule", suffix=".json", share=12.0, read=_check),
    "schedule-show": Reader(kind="schedule", suffix=".json", share=4.0, read=_show),
    "schedule-replay": Reader(kind="schedule", suffix=".json", share=2.0, read=_replay),
    "lowered": Reader(kind="lowered", suffix=".json", share=8.0, read=_lowered),
    "trace": Reader(kind="trace", suffix=".json", share=8.0, read=_trace),
    "links": Reader(kind="links", suffix=".json", share=8.0, read=_links),
    "scenario": Reader(kind="scenario", suffix=".toml", share=6.0, read=_run),
    "machine": Reader(kind="machine", suffix=".toml", share=4.0, read=_machine),
    "library": Reader(kind="library", suffix=".toml", share=4.0, read=_library),
    "stack": Reader(kind="stack", suffix=".toml", share=4.0, read=_stack),
    "rules": Reader(kind="rules", suffix=".toml", share=2.0, read=_rules),
    "runs": Reader(kind="runs", suffix=".csv", share=2.0, read=_runs),
    "calibration": Reader(kind="calibration", suffix=".toml", share=8.0, read=_calibration),
    "log": Reader(kind="log", suffix=".txt", share=10.0, read=_measured),
    "inspector": Reader(kind="inspector", suffix=".log", share=4.0, read=_measured),
    "flight-recorder": Reader(kind="flight-recorder", suffix="", share=8.0, read=_measured),
    "deepspeed": Reader(kind="deepspeed", suffix=".txt", share=4.0, read=_measured),
    "benchmark-file": Reader(kind="benchmark-file", suffix=".json", share=4.0, read=_measured),
    "table": Reader(kind="table", suffix=".csv", share=8.0, read=_measured),
    "study": Reader(kind="study", suffix=".toml", share=4.0, read=_study),
    "sweep-rows": Reader(kind="sweep-rows", suffix=".parquet", share=4.0, read=_sweep_rows),
    "sweep-manifest": Reader(kind="sweep-manifest", suffix=".json", share=2.0, read=_sweep_manifest),
    "topology": Reader(kind="topology", suffix=".conf", share=8.0, read=_topology),
    "kineto": Reader(kind="kineto", suffix=".json", share=8.0, read=_kineto),
    "topology-xml": Reader(kind="topology-xml", suffix=".xml", share=8.0, read=_topology_xml),
    "setting": Reader(kind="setting", suffix=".txt", share=1.0, read=_setting),
    "store": Reader(kind="store", suffix=".sqlite", share=4.0, read=_store),
    "killed-run": Reader(kind="setting", suffix=".txt", share=0.02, read=_killed),
}
READERS |= {reader.kind: reader for reader in added("tests.fuzz", Reader)}
