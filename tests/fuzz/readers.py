"""Every reader of simfrontier files, and what comes first after it."""

from __future__ import annotations

import random
import shutil
import tomllib
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from tests.invoke import TOY, invoke

STUDIED = 20_000  # points of a study that are made: more take seconds
SMALL_S = 3.0  # a scenario that is forecast to take longer is read and laid out, and not simulated

Read = Callable[[Path, random.Random], None]


class Defect(Exception):
    """A command ended as no command should."""


def command(*arguments: str | Path) -> None:
    """Run a command line in this process. Raises Defect for a fault of simfrontier."""
    ran = invoke(*arguments)
    if ran.code not in (0, 1, 2):
        raise Defect(f"exit code {ran.code}: {ran.err.strip()[-300:]}")
    if ran.code == 2 and not ran.err.strip():
        raise Defect("exit code 2, and no message")


def by_command(verb: str, *more: str | Path) -> Read:
    """Read a file by a verb with these further arguments."""
    return lambda path, rng: command(verb, path, *more)


def _run(path: Path, rng: random.Random) -> None:
    """Read a scenario, forecast it, and simulate it where that is a small job."""
    from simfrontier.answers.forecast import forecast_run
    from simfrontier.inputs.scenario import load_scenario

    loaded = load_scenario(path)
    if rng.random() < 0.5 or forecast_run(loaded, None, False, False).seconds > SMALL_S:
        return
    command("run", path, "--no-sensitivity", "--no-page", "--out", path.parent / "out")


def as_part(key: str) -> Read:
    """Read a file as the machine, library or stack of a scenario."""

    def read(path: Path, rng: random.Random) -> None:
        text = TOY.read_text(encoding="utf-8")
        text = text.replace("devices = [2, 4, 8, 16]", "devices = [8]").partition("[plans.ddp]")[0]
        if key == "library":
            text += f'\n[library]\nname = "{path.name}"\n'
        else:
            old = {"machine": 'name = "toy-cluster"', "stack": 'stack = "none"'}[key]
            text = text.replace(old, f'{old.partition(" ")[0]} = "{path.name}"')
        scenario = path.parent / "with.toml"
        scenario.write_text(text, encoding="utf-8")
        _run(scenario, rng)

    return read


def _calibration(path: Path, _: random.Random) -> None:
    from simfrontier.core.collectives import load_calibration

    load_calibration(path)


def _measured(path: Path, _: random.Random) -> None:
    from simfrontier.inputs.measured import Setup, readings

    readings([path], Setup(machine="frontier", library="rccl", devices=16))


def _trace(path: Path, _: random.Random) -> None:
    from simfrontier.core.trace import read_perfetto

    read_perfetto(path)


def _topology(path: Path, _: random.Random) -> None:
    from simfrontier.core.machine import read_topology

    topology = read_topology(path)
    for level in range(3):
        assert len(topology.groups(level)) == len(topology.switch_of)


def _topology_xml(path: Path, rng: random.Random) -> None:
    """Tell a node's XML, or make it a machine file."""
    from simfrontier.core.machine.topology import machine_document, machine_text, read_node

    if rng.random() < 0.2:
        command("topology", path)
    base = rng.choice(["frontier", "perlmutter", "a100-node", "toy-quad"])
    machine_text(machine_document(read_node(path), base, "made", "x.xml").document, ("Made.",))


def _job(path: Path, rng: random.Random) -> None:
    from simfrontier.inputs.job_files import Wanted, import_job

    model = {"model.vocabulary": 32000} if rng.random() < 0.5 else {}
    made = import_job([path], Wanted(machine="eos", devices=rng.choice([32, 96, None]), settings=model))
    assert tomllib.loads(made.text)


def _lowered(path: Path, _: random.Random) -> None:
    from simfrontier.core.collectives import load_lowered

    load_lowered(path)


def _setting(path: Path, _: random.Random) -> None:
    text = path.read_bytes().decode("utf-8", "replace").replace("\0", "")
    command("check", TOY, "--plans", "zero3", "--devices", "8", "--set", text)


def _study(path: Path, _: random.Random) -> None:
    """Read and count a study; make its first points."""
    from simfrontier.answers.sweep import load_study

    scenario = path.parent / TOY.name
    if not scenario.exists():
        shutil.copy(TOY, scenario)
    study = load_study(path)
    if study.count <= STUDIED:
        for point in islice(study.points(), 3):
            study.setting_of(point)


class Reader(NamedTuple):
    """`read` gets a file with this suffix, changed from a sample of `kind`; `share`: how often, relative to others."""

    kind: str
    suffix: str
    share: float
    read: Read


READERS: dict[str, Reader] = {
    "schedule-check": Reader("schedule", ".json", 12.0, by_command("check")),
    "schedule-show": Reader("schedule", ".json", 4.0, by_command("show")),
    "schedule-replay": Reader("schedule", ".json", 2.0, by_command("replay", "--scenario", TOY)),
    "lowered": Reader("lowered", ".json", 8.0, _lowered),
    "trace": Reader("trace", ".json", 8.0, _trace),
    "scenario": Reader("scenario", ".toml", 6.0, _run),
    "machine": Reader("machine", ".toml", 4.0, as_part("machine")),
    "library": Reader("library", ".toml", 4.0, as_part("library")),
    "stack": Reader("stack", ".toml", 4.0, as_part("stack")),
    "runs": Reader("runs", ".csv", 2.0, by_command("validate", "--json")),
    "calibration": Reader("calibration", ".toml", 8.0, _calibration),
    "log": Reader("log", ".txt", 10.0, _measured),
    "inspector": Reader("inspector", ".log", 4.0, _measured),
    "flight-recorder": Reader("flight-recorder", "", 8.0, _measured),
    "deepspeed": Reader("deepspeed", ".txt", 4.0, _measured),
    "benchmark-file": Reader("benchmark-file", ".json", 4.0, _measured),
    "table": Reader("table", ".csv", 8.0, _measured),
    "study": Reader("study", ".toml", 4.0, _study),
    "topology": Reader("topology", ".conf", 8.0, _topology),
    "kineto": Reader("kineto", ".json", 4.0, by_command("import", "--machine", "perlmutter", "--stand-in")),
    "job-json": Reader("job-json", ".json", 8.0, _job),
    "job-yaml": Reader("job-yaml", ".yml", 8.0, _job),
    "job-toml": Reader("job-toml", ".toml", 4.0, _job),
    "job-script": Reader("job-script", ".sh", 8.0, _job),
    "topology-xml": Reader("topology-xml", ".xml", 8.0, _topology_xml),
    "setting": Reader("setting", ".txt", 1.0, _setting),
}
