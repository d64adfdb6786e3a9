"""What `pip install simfrontier` gives: a core that works without the packages of any extra, and scenarios."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from simfrontier.base.optional import PACKAGES
from tests.invoke import ROOT

PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {missing}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)


sys.meta_path.insert(0, Missing())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name in {missing} else found(name, package)
"""


def package(requirement: str) -> str:
    return re.split(r"[<>=\[ ]", requirement)[0].replace("-", "_")


CORE = {package(each) for each in PYPROJECT["dependencies"]}
EXTRAS = {extra: {*map(package, each)} for extra, each in PYPROJECT["optional-dependencies"].items()}


def ran(folder: Path, *arguments: str, path: Path = ROOT, code: int = 0, module: str = "simfrontier") -> str:
    """What a program prints in a folder, in an environment without the packages of extras."""
    hidden = folder / "hidden"
    hidden.mkdir(exist_ok=True)
    absent = set[str]().union(*EXTRAS.values()) - CORE | {"dask", "tornado"}
    (hidden / "sitecustomize.py").write_text(WITHOUT.format(missing=absent), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", module, *arguments],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, (hidden, path, ROOT / "real"))),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


def test_the_packages_that_commands_ask_for_are_those_of_pip() -> None:
    for extra, names in PACKAGES.items():
        assert {*names} <= EXTRAS[extra] and not {*names} & CORE


def test_the_core_compares_with_several_processes_and_writes_the_page(tmp_path: Path) -> None:
    words = ["--machine", "toy-pair", "--model", "tiny", "--plans", "zero3,zero1", "--devices", "2", "--jobs", "2"]
    ran(tmp_path, "compare", *words, "--out", "out")
    assert (tmp_path / "out" / "index.html").stat().st_size > 1e6
    assert "[sweep]" in ran(tmp_path, "doctor")


@pytest.mark.parametrize(
    ("words", "extra"),
    [
        (("serve", "toy"), "serve"),
        (("sweep", str(ROOT / "scenarios/studies/toy.toml")), "sweep"),
        (("run", "toy", "--jobs", "2", "--dashboard"), "sweep"),
        (("run", "toy", "--scheduler", "tcp://127.0.0.1:1"), "sweep"),
    ],
)
def test_a_command_without_its_extra_says_what_to_install(words: tuple[str, ...], extra: str, tmp_path: Path) -> None:
    [line] = ran(tmp_path, *words, code=2).splitlines()
    assert line.endswith(f"which is not installed; allowed: pip install 'simfrontier[{extra}]'")


@pytest.mark.parametrize("verb", ["train", "replay"])
def test_real_runs_say_what_to_install(verb: str, tmp_path: Path) -> None:
    ran(tmp_path, "export", "toy", "--plans", "zero3", "--devices", "2", "--out", "sim")
    words = (verb, "sim/schedule-zero3.json", "--ranks", "2", "--out", "real")
    [line] = ran(tmp_path, *words, code=2, module="simfrontier_real").splitlines()
    assert line.endswith("needs the package torch, which is not installed; allowed: pip install 'simfrontier[real]'")


@pytest.mark.long
def test_the_wheel_has_scenarios_and_works_in_an_empty_folder(tmp_path: Path) -> None:
    clone, empty = tmp_path / "clone", tmp_path / "empty"
    ignored = shutil.ignore_patterns(".*", "*.egg-info", "build", "reports", "tests", "__pycache__", "docs")
    shutil.copytree(ROOT, clone, ignore=ignored)
    pip = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        "wheels",
    ]
    subprocess.run([*pip, "."], cwd=clone, check=True)
    [wheel] = (clone / "wheels").glob("simfrontier-*.whl")
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    empty.mkdir()
    listed = ran(empty, "list", "scenarios", path=tmp_path / "site")
    names = {path.stem for path in (ROOT / "scenarios").glob("*.toml")}
    assert {line.split()[0] for line in listed.splitlines()} == names
    ran(empty, "run", "toy", "--plans", "zero3", "--devices", "8", path=tmp_path / "site")
