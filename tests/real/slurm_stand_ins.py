"""Stand-ins for Slurm's programs and for those of a Python environment, on one machine without Slurm.

`srun` starts no ranks: it checks what it is asked for, notes it, and plays the ranks' part. The traces that it writes
as those of a replay are the simulated ones.

    STAND_IN_LOG      file of a JSON line per call
    STAND_IN_FAILS    "measure:7 train:1": what ends with which exit code
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

NOTED = ("MASTER_ADDR", "MASTER_PORT", "NCCL_NET", "LD_LIBRARY_PATH")


def install(folder: Path, *names: str) -> None:
    """Programs of these names in a folder, played by this file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        write_program(folder / name, f'exec "{sys.executable}" -S "{__file__}" {name} "$@"')


def install_slurm(folder: Path) -> None:
    """Slurm's programs that a job uses, and the site's `module`."""
    install(folder, "srun", "sbatch", "sbcast")
    write_program(folder / "scontrol", 'for ((n = 0; n < SLURM_JOB_NUM_NODES; n++)); do echo "host$n"; done')
    noted = '{"program": "module", "command": ["%s", "%s"]}\\n'
    write_program(folder / "module", f"""printf '{noted}' "$1" "$2" >>"$STAND_IN_LOG\"""")


def install_environment(folder: Path) -> None:
    """A Python environment with a simfrontier that only writes files of the right names."""
    install(folder / "bin", "simfrontier", "simfrontier-real")
    write_program(folder / "bin" / "python3", f'exec "{sys.executable}" "$@"')
    unpack = "import sys, pathlib; pathlib.Path(sys.argv[0]).with_name('unpacked').touch()\n"
    (folder / "bin" / "conda-unpack").write_text(unpack, encoding="utf-8")


def write_program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/bash\n{line}\n", encoding="utf-8")
    path.chmod(0o755)


def fault_of(what: str) -> int:
    """The exit code that something is to end with."""
    faults = dict(each.split(":") for each in os.environ.get("STAND_IN_FAILS", "").split())
    return int(faults.get(what, 0))


def note(program: str, **values: Any) -> list[dict[str, Any]]:
    """Note a call; returns those before it."""
    log = Path(os.environ["STAND_IN_LOG"])
    before = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()] if log.exists() else []
    with log.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"program": program, **values}) + "\n")
    return before


def split(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """Options `--name=value`, and what follows them."""
    options: dict[str, str] = {}
    while arguments and arguments[0].startswith("--"):
        name, _, value = arguments.pop(0).removeprefix("--").partition("=")
        options[name] = value
    return options, arguments


def sbatch(arguments: list[str]) -> int:
    """Runs the job at once, and ends as it does."""
    options, script = split(arguments)
    note("sbatch", options=options, command=script)
    job = {
        "SLURM_JOB_ID": os.environ.get("STAND_IN_JOB", "1991"),
        "SLURM_JOB_NUM_NODES": options["nodes"],
        "SLURM_JOB_NODELIST": f"host[0-{int(options['nodes']) - 1}]",
        "SLURM_SUBMIT_DIR": os.getcwd(),
    }
    return subprocess.run(["bash", *script], env={**os.environ, **job}).returncode


def sbcast(arguments: list[str]) -> int:
    note("sbcast", command=arguments)
    flags, source, target = arguments
    assert flags == "-pf"
    shutil.copy(source, target)
    return fault_of("sbcast")


def srun(arguments: list[str]) -> int:
    """A step on the job's nodes: refuses numbers that do not fit, and ranks that could not find each other."""
    options, command = split(arguments)
    nodes, tasks, per_node = (int(options[name]) for name in ("nodes", "ntasks", "ntasks-per-node"))
    seen = {name: os.environ.get(name, "") for name in NOTED}
    before = note("srun", options=options, command=command, environment=seen)
    total = int(os.environ["SLURM_JOB_NUM_NODES"])
    assert nodes <= total and tasks == nodes * per_node, options
    assert nodes == total or options["relative"] == "0", options
    name = Path(command[0]).name
    if name == "hostname":
        if fault := fault_of("hostname"):
            return fault
        sys.stdout.write("127.0.0.1 10.128.0.1\n")
        return 0
    if name in ("mkdir", "tar") or command[-1].endswith("conda-unpack"):
        assert per_node == 1
        return fault_of(name) or subprocess.run(command).returncode
    ports = [each["environment"]["MASTER_PORT"] for each in before if each["program"] == "srun"]
    assert seen["MASTER_ADDR"] and seen["MASTER_PORT"] and seen["MASTER_PORT"] not in ports, (seen, ports)
    assert shutil.which(command[0]), command
    if name == "apptainer":
        command = command[4:]
        name = command[0]
    step = "where" if name == "python3" else command[1]
    return fault_of(step) or play_ranks(step, command)


def play_ranks(step: str, command: list[str]) -> int:
    def after(option: str) -> Path:
        return Path(command[command.index(option) + 1])

    if step == "measure":
        after("--out").touch()
    elif step == "replay":
        after("--out").mkdir(parents=True, exist_ok=True)
        for schedule in (Path(word) for word in command if word.endswith(".json")):
            name = schedule.name.replace("schedule-", "trace-")
            shutil.copy(schedule.with_name(name), after("--out") / name)
    elif step == "train":
        after("--json").write_text("{}", encoding="utf-8")
    return 0


def simfrontier(arguments: list[str]) -> int:
    """Files of the right names, with nothing in them."""
    out = Path(arguments[arguments.index("--out") + 1])
    note("simfrontier", command=arguments)
    if fault := fault_of("export-train" if out.name == "train" else out.name):
        if fault == 1:
            write_page(out)
        return fault
    if arguments[0] == "export":
        out.mkdir(parents=True, exist_ok=True)
        for plan in arguments[arguments.index("--plans") + 1].split(","):
            (out / f"schedule-{plan}.json").write_text("{}", encoding="utf-8")
            (out / f"trace-{plan}.json").write_text("{}", encoding="utf-8")
        return 0
    sim, real = (Path(word) for word in arguments[1:3])
    assert list(sim.glob("trace-*.json")) and list(real.glob("trace-*.json")), arguments
    write_page(out)
    return 0


def write_page(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "index.html").write_text("a page", encoding="utf-8")


PROGRAMS: Mapping[str, Any] = {
    **{"srun": srun, "sbatch": sbatch, "sbcast": sbcast},
    "simfrontier": simfrontier,
}

if __name__ == "__main__":
    sys.exit(PROGRAMS[sys.argv[1]](sys.argv[2:]))
