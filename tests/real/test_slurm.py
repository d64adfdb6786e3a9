"""The Slurm scripts: what their dry runs would do is possible, and every setting says where it comes from."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from simfrontier.core.program.store import digest, load
from simfrontier.core.trace import read_perfetto
from simfrontier.interfaces.cli.program import app_of
from simfrontier_real.cli import app as simfrontier_real

ROOT = Path(__file__).resolve().parents[2]
SLURM = ROOT / "real" / "slurm"
SITES = ("frontier", "perlmutter", "generic")
SCRIPTS = [*(f"{site}.sbatch" for site in SITES), "common.sh"]
APPS = {
    "simfrontier": typer.main.get_command(app_of()),
    "simfrontier-real": typer.main.get_command(simfrontier_real),
}
INPUTS = {"SCENARIO": "/scenarios/mine.toml", "PLANS": "zero3,zero-topo", "OUT": "/results"}
JOB = {"SLURM_JOB_ID": "1991", "SLURM_JOB_NUM_NODES": "3", "SLURM_JOB_NODELIST": "hosta,hostb,hostc"}


@dataclass(frozen=True)
class Ended:
    """A script's exit code, its lines as words, and what it said on standard error."""

    code: int
    lines: list[list[str]]
    err: str

    def commands(self, program: str) -> list[list[str]]:
        """The arguments of every call of a program, started by srun or not."""
        results = []
        for words in self.lines:
            names = [Path(word).name for word in words]
            if program in names and words[0] != "export":
                results.append(words[names.index(program) + 1 :])
        return results

    def launches(self) -> list[list[str]]:
        return [words for words in self.lines if words[0] == "srun" and "hostname" not in words]

    def exports(self, name: str) -> list[str]:
        return [words[1].partition("=")[2] for words in self.lines if words[0] == "export" and f"{name}=" in words[1]]


def dry_run(site: str, **variables: str) -> Ended:
    """A dry run in an environment of nothing but these variables; no scontrol is found, and no Python environment."""
    ran = subprocess.run(
        [shutil.which("bash") or "bash", str(SLURM / f"{site}.sbatch")],
        env={"PATH": "/usr/bin:/bin", "DRY_RUN": "1", "ROOT": str(ROOT), "PYTHON_ENV": "/nowhere", **variables},
        capture_output=True,
        text=True,
        timeout=60,
    )
    lines = [shlex.split(line) for line in ran.stdout.splitlines() if not line.startswith("missing: ")]
    return Ended(ran.returncode, lines, ran.stderr)


def parsed(program: str, arguments: list[str]) -> Any:
    """The context that a command line is parsed into, nothing run; raises the parser's error for an unknown option."""
    group: Any = APPS[program]
    command = group.commands[arguments[0]]
    return command.make_context(arguments[0], arguments[1:])


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing() -> None:
    ran = subprocess.run(["shellcheck", *SCRIPTS], cwd=SLURM, capture_output=True, text=True)
    assert ran.stdout == "" and ran.returncode == 0


@pytest.mark.parametrize("site", SITES)
@pytest.mark.parametrize("job", [{}, JOB], ids=["outside", "job"])
@pytest.mark.parametrize("variant", [{}, {"BACKEND": "nccl", "PLUGIN": "/my/plugin.so", "BIND": "closest"}])
def test_every_command_of_the_dry_run_has_these_options(
    site: str, job: dict[str, str], variant: dict[str, str]
) -> None:
    ended = dry_run(site, **INPUTS, **job, **variant)
    assert (ended.code, ended.err) == (2, "")  # the environment is missing
    ours, real = ended.commands("simfrontier"), ended.commands("simfrontier-real")
    assert [words[0] for words in ours] == ["export", "export", "export", "crosscheck", "crosscheck"]
    assert [words[0] for words in real] == ["measure", "replay", "train"]
    for program, calls in (("simfrontier", ours), ("simfrontier-real", real)):
        for words in calls:
            parsed(program, words)


@pytest.mark.parametrize(("site", "ranks"), [("frontier", 8), ("perlmutter", 4), ("generic", 8)])
def test_one_rank_per_device_on_all_nodes_of_the_job(site: str, ranks: int) -> None:
    ended = dry_run(site, **INPUTS, **JOB)
    assert len(ended.launches()) == 4  # where, measure, replay, train
    for nodes, words in zip((3, 3, 3, 2), ended.launches(), strict=True):  # training: TRAIN_NODES
        assert {f"--nodes={nodes}", f"--ntasks={nodes * ranks}", f"--ntasks-per-node={ranks}"} < set(words)
        assert {"--distribution=block", "--kill-on-bad-exit=1"} < set(words)
        assert ("--relative=0" in words) is (nodes < 3)  # rank 0 is on the first host
    exports = [words for words in ended.commands("simfrontier") if words[0] == "export"]
    assert [int(words[words.index("--devices") + 1]) for words in exports] == [3 * ranks, 3 * ranks, 2 * ranks]


@pytest.mark.parametrize("site", SITES)
def test_every_launch_has_a_port_of_its_own_and_the_first_host(site: str) -> None:
    ended = dry_run(site, **INPUTS, **JOB)
    # job 1991: 10000 + (1991 mod 1990) x 10 = 10010, then counted up
    assert ended.exports("MASTER_PORT") == ["10010", "10011", "10012", "10013"]
    assert ended.exports("MASTER_ADDR") == ["ADDRESS-OF-hosta" if site == "frontier" else "hosta"]


@pytest.mark.parametrize("site", SITES)
def test_outside_of_a_job_the_script_submits_itself(site: str) -> None:
    ended = dry_run(site, **INPUTS, NODES="5", ACCOUNT="abc123")
    assert ended.lines[0][:1] == ["sbatch"] and ended.lines[0][-1] == str(SLURM / f"{site}.sbatch")
    assert {"--nodes=5", "--account=abc123"} < set(ended.lines[0])
    assert all(words[0] != "sbatch" for words in dry_run(site, **INPUTS, **JOB).lines)


@pytest.mark.parametrize(
    ("site", "variables", "message"),
    [
        ("perlmutter", {"DRY_RUN": "0"}, "SCENARIO is not set"),
        ("frontier", {"STEPS": "predict mesure"}, "STEPS: got mesure; allowed: predict where measure calibrate"),
        ("generic", {"BROADCAST": "1"}, "LOCAL_DISK is not set"),
        ("frontier", {"TRAIN_NODES": "0"}, "TRAIN_NODES: got '0'; allowed: a whole number from 1 to 100000"),
        ("frontier", {"NETWORK": "plugin tcp"}, "NETWORK: got tcp; allowed: plugin no-gdr no-p2p sockets"),
        ("frontier", {"ROOT": "/nowhere"}, "/nowhere has no real/slurm/common.sh"),
    ],
)
def test_a_wrong_input_is_one_line(site: str, variables: dict[str, str], message: str) -> None:
    ended = dry_run(site, **variables)
    assert ended.code == 2 and message in ended.err and ended.err.count("\n") == 1


@pytest.mark.parametrize(("site", "maker"), [("frontier", "conda"), ("perlmutter", "python"), ("generic", "python3")])
def test_an_environment_that_is_there_is_kept(site: str, maker: str, tmp_path: Path) -> None:
    made = dry_run(site, SETUP="1", PYTHON_ENV=str(tmp_path / "env"))
    (tmp_path / "env" / "bin").mkdir(parents=True)
    (tmp_path / "env" / "bin" / "python").symlink_to(sys.executable)
    kept = dry_run(site, SETUP="1", PYTHON_ENV=str(tmp_path / "env"))
    assert made.code == kept.code == 0
    rest = [words for words in made.lines if words[0] != maker]
    assert len(rest) == len(made.lines) - 1
    assert [words for words in kept.lines if "kept:" not in words] == rest


@pytest.mark.parametrize("site", SITES)
def test_a_job_submitted_by_hand_has_a_time_limit_and_ranks_see_all_devices(site: str) -> None:
    assert "\n#SBATCH --time=00:30:00\n" in (SLURM / f"{site}.sbatch").read_text(encoding="utf-8")
    launches = dry_run(site, **INPUTS, **JOB, BACKEND="nccl").launches()
    assert launches and all("--gpu-bind=none" in words for words in launches)


def test_on_frontier_rank_r_of_a_node_has_the_cores_and_memory_of_gcd_r() -> None:
    words = dry_run("frontier", **INPUTS, **JOB).launches()[0]
    (masks,) = (word.partition("mask_cpu:")[2] for word in words if "mask_cpu" in word)
    (memory,) = (word.partition("map_mem:")[2] for word in words if "map_mem" in word)
    cores = [[core for core in range(64) if int(mask, 16) >> core & 1] for mask in masks.split(",")]
    # first core of each GCD's eight (Frontier User Guide), which is left to the system
    assert cores == [list(range(first + 1, first + 8)) for first in (48, 56, 16, 24, 0, 8, 32, 40)]
    assert [int(domain) for domain in memory.split(",")] == [mine[0] // 16 for mine in cores]  # 16 cores per domain
    closest = dry_run("frontier", **INPUTS, **JOB, BIND="closest").launches()[0]
    assert {"--gpus-per-task=1", "--gpu-bind=closest"} < set(closest)


@pytest.mark.parametrize(
    ("network", "library", "variables"),
    [
        ("", "", {"NCCL_NET": ["OFI"], "NCCL_NET_GDR_LEVEL": []}),
        ("plugin", "rccl", {"NCCL_NET": ["OFI"], "NCCL_NET_GDR_LEVEL": []}),  # the module sets the level
        ("no-gdr", "rccl-no-gdr", {"NCCL_NET": ["OFI"], "NCCL_NET_GDR_LEVEL": ["LOC"]}),
        ("no-p2p", "rccl-no-p2p", {"NCCL_NET": ["OFI"], "NCCL_NET_GDR_LEVEL": ["LOC"], "NCCL_P2P_DISABLE": ["1"]}),
        ("sockets", "rccl-sockets", {"NCCL_NET": ["Socket"], "NCCL_NET_GDR_LEVEL": []}),
    ],
)
def test_a_network_on_frontier_is_an_environment_and_the_state_of_the_library_that_is_predicted(
    network: str, library: str, variables: dict[str, list[str]]
) -> None:
    ended = dry_run("frontier", **INPUTS, **JOB, NETWORK=network)
    assert {name: ended.exports(name) for name in variables} == variables
    assert (["module", "load", "rccl-net-plugin"] in ended.lines) is (network != "sockets")
    predict = ended.commands("simfrontier")[0]
    assert [word for word in predict if word.startswith("library.name=")] == (
        [f"library.name={library}"] if library else []
    )


@pytest.mark.parametrize("nodes", [1, 48, *(pytest.param(each, marks=pytest.mark.long) for each in (2, 8, 96, 384))])
def test_what_frontier_runs_unless_told_otherwise_has_schedules(nodes: int, tmp_path: Path) -> None:
    ended = dry_run("frontier", NODES=str(nodes), OUT=str(tmp_path))
    predict, _, train = (words for words in ended.commands("simfrontier") if words[0] == "export")
    assert predict[predict.index("--devices") + 1] == str(8 * nodes)
    for words in (predict, train):
        done = CliRunner().invoke(app_of(), words)
        assert done.exit_code == 0, done.output
    for folder in ("sim", "train"):
        assert len(list((tmp_path / folder).glob("schedule-*.json"))) == 3


STAND_IN = """#!/bin/bash
# starts the tasks of a job step on this machine, as srun does on its nodes
while [[ $1 == --* ]]; do
    case $1 in --ntasks=*) count=${1#*=} ;; esac
    shift
done
for ((rank = 0; rank < count; rank++)); do
    SLURM_PROCID=$rank SLURM_NTASKS=$count SLURM_LOCALID=$rank "$@" &
    started+=($!)
done
for one in "${started[@]}"; do wait "$one" || code=$?; done
exit "${code:-0}"
"""


def test_the_generic_script_runs_with_a_stand_in_for_srun(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    for name, text in (("srun", STAND_IN), ("scontrol", "#!/bin/bash\nhostname\n")):
        (tmp_path / name).write_text(text, encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    job = {"SLURM_JOB_ID": str(os.getpid()), "SLURM_JOB_NUM_NODES": "1", "SLURM_JOB_NODELIST": "here"}
    inputs = {"RANKS_PER_NODE": "2", "PLANS": "zero3", "COMPUTE": "none", "STEPS": "predict where replay"}
    folders = {"ROOT": str(ROOT), "PYTHON_ENV": sys.prefix, "OUT": str(tmp_path / "out")}
    code = {"PYTHONPATH": f"{ROOT}:{ROOT / 'real'}"}
    ran = subprocess.run(
        ["bash", str(SLURM / "generic.sbatch")],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}", **job, **inputs, **folders, **code},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ran.returncode == 0, ran.stderr
    assert re.findall(r"^rank (\d) of 2, place (\d)", ran.stdout, re.MULTILINE) in (
        [("0", "0"), ("1", "1")],
        [("1", "1"), ("0", "0")],
    )
    trace = read_perfetto(tmp_path / "out" / "real" / "trace-zero3.json")
    assert trace.digest == digest(load(tmp_path / "out" / "sim" / "schedule-zero3.json"))
    assert trace.members == ((0,), (1,))
