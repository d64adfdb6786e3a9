"""Every reader of simfrontier files, and what comes first after it."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

from tests.fuzz.reader import Reader, command
from tests.invoke import TOY

STUDIED = 20_000  # points of a study that are made: more take seconds
SMALL_S = 3.0  # a scenario that is forecast to take longer is read and laid out, and not simulated


def _show(path: Path, _: random.Random) -> None:
    command("show", path)


def _check(path: Path, _: random.Random) -> None:
    command("check", path)


def _replay(path: Path, _: random.Random) -> None:
    command("replay", path, "--scenario", TOY)


def _run(path: Path, rng: random.Random) -> None:
    """A scenario: read, forecast, and simulated where that is a small job."""
    from simfrontier.answers.forecast import forecast_run
    from simfrontier.inputs.scenario import load_scenario

    loaded = load_scenario(path)
    if rng.random() < 0.5 or forecast_run(loaded, None, False, False).seconds > SMALL_S:
        return
    command("run", path, "--no-sensitivity", "--no-page", "--out", path.parent / "out")


def _machine(path: Path, rng: random.Random) -> None:
    _with(path, rng, machine=path.name)


def _library(path: Path, rng: random.Random) -> None:
    _with(path, rng, library=path.name)


def _stack(path: Path, rng: random.Random) -> None:
    _with(path, rng, stack=path.name)


def _runs(path: Path, _: random.Random) -> None:
    command("validate", path, "--json")


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
    from simfrontier.core.collectives.calibration import load_calibration

    load_calibration(path)


def _measured(path: Path, _: random.Random) -> None:
    from simfrontier.inputs.measured import Setup, readings

    readings([path], Setup(machine="frontier", library="rccl", devices=16, nodes=None, packages=None))


def _trace(path: Path, _: random.Random) -> None:
    from simfrontier.core.trace import read_perfetto

    read_perfetto(path)


def _topology(path: Path, _: random.Random) -> None:
    from simfrontier.core.machine import read_topology

    topology = read_topology(path)
    for level in range(3):
        assert len(topology.groups(level)) == len(topology.switch_of)


def _kineto(path: Path, _: random.Random) -> None:
    command("import", path, "--machine", "perlmutter", "--stand-in")


def _topology_xml(path: Path, rng: random.Random) -> None:
    """A node's XML: told, or made a machine file."""
    from simfrontier.core.machine.topology import machine_document, machine_text, read_node

    if rng.random() < 0.2:
        command("topology", path)
    base = rng.choice(["frontier", "perlmutter", "a100-node", "toy-quad"])
    machine_text(machine_document(read_node(path), base, "made", "x.xml").document, ("Made.",))


def _lowered(path: Path, _: random.Random) -> None:
    from simfrontier.core.collectives.lowering.store import load_lowered

    load_lowered(path)


def _setting(path: Path, _: random.Random) -> None:
    text = path.read_bytes().decode("utf-8", "replace").replace("\0", "")
    command("check", TOY, "--plans", "zero3", "--devices", "8", "--set", text)


def _study(path: Path, _: random.Random) -> None:
    """A study: read and counted; its first points are made, and given their digests."""
    from itertools import islice

    from simfrontier.answers.study import Digests
    from simfrontier.answers.sweep import load_study

    scenario = path.parent / TOY.name
    if not scenario.exists():
        shutil.copy(TOY, scenario)
    study = load_study(path)
    if study.count <= STUDIED:
        digests = Digests()
        for point in islice(study.points(), 3):
            assert len(digests.of(study.setting_of(point))) == 64


READERS: dict[str, Reader] = {
    "schedule-check": Reader(kind="schedule", suffix=".json", share=12.0, read=_check),
    "schedule-show": Reader(kind="schedule", suffix=".json", share=4.0, read=_show),
    "schedule-replay": Reader(kind="schedule", suffix=".json", share=2.0, read=_replay),
    "lowered": Reader(kind="lowered", suffix=".json", share=8.0, read=_lowered),
    "trace": Reader(kind="trace", suffix=".json", share=8.0, read=_trace),
    "scenario": Reader(kind="scenario", suffix=".toml", share=6.0, read=_run),
    "machine": Reader(kind="machine", suffix=".toml", share=4.0, read=_machine),
    "library": Reader(kind="library", suffix=".toml", share=4.0, read=_library),
    "stack": Reader(kind="stack", suffix=".toml", share=4.0, read=_stack),
    "runs": Reader(kind="runs", suffix=".csv", share=2.0, read=_runs),
    "calibration": Reader(kind="calibration", suffix=".toml", share=8.0, read=_calibration),
    "log": Reader(kind="log", suffix=".txt", share=10.0, read=_measured),
    "inspector": Reader(kind="inspector", suffix=".log", share=4.0, read=_measured),
    "flight-recorder": Reader(kind="flight-recorder", suffix="", share=8.0, read=_measured),
    "deepspeed": Reader(kind="deepspeed", suffix=".txt", share=4.0, read=_measured),
    "benchmark-file": Reader(kind="benchmark-file", suffix=".json", share=4.0, read=_measured),
    "table": Reader(kind="table", suffix=".csv", share=8.0, read=_measured),
    "study": Reader(kind="study", suffix=".toml", share=4.0, read=_study),
    "topology": Reader(kind="topology", suffix=".conf", share=8.0, read=_topology),
    "kineto": Reader(kind="kineto", suffix=".json", share=4.0, read=_kineto),
    "topology-xml": Reader(kind="topology-xml", suffix=".xml", share=8.0, read=_topology_xml),
    "setting": Reader(kind="setting", suffix=".txt", share=1.0, read=_setting),
}
