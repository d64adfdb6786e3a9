"""Extras can be deleted: without the folder of one, or of all, the core works, and names nothing of it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from simfrontier.base.extras import PACKAGE, Verb, added
from tests.invoke import ROOT

EXTRAS = sorted(path.parent.name for path in (ROOT / PACKAGE).glob("*/__init__.py"))
LEFT_OUT = (".*", "*.egg-info", "build", "reports")
LOAD = """
from pathlib import Path
from simfrontier.inputs.scenario import load_scenario
for path in sorted(Path("scenarios").glob("*.toml")):
    load_scenario(path)
"""


def copy_without(names: list[str], folder: Path) -> Path:
    """The repository, less reports and the folders of these extras. Bytecode is copied too, as it holds for files of
    the same times: else every start would compile what it imports."""
    copied = folder / "copy"
    shutil.copytree(ROOT, copied, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for name in names:
        shutil.rmtree(copied / PACKAGE / name)
    return copied


def ran_in(copied: Path, *arguments: str, columns: str | None = None) -> str:
    """The standard output of Python with these arguments, in the copy and with its files."""
    path = os.pathsep.join((str(copied), str(copied / "real")))
    wide = {} if columns is None else {"COLUMNS": columns}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=copied,
        env={**os.environ, **wide, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, (arguments, done.stdout[-3000:], done.stderr[-3000:])
    return done.stdout


def pytest_in(copied: Path, *arguments: str) -> str:
    return ran_in(copied, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments)


deleted = pytest.mark.parametrize("names", [*([name] for name in EXTRAS), EXTRAS], ids=[*EXTRAS, "all"])


def test_every_module_that_adds_is_asked_for() -> None:
    """A module of another name would be passed over without a word."""
    asked = re.compile(r'added\(\s*"([a-z_.]+)"')
    core = [*(ROOT / "simfrontier").rglob("*.py"), *(ROOT / "real").rglob("*.py")]
    code = "".join(path.read_text(encoding="utf-8") for path in core)
    files = {path: path.relative_to(ROOT / PACKAGE) for path in (ROOT / PACKAGE).rglob("*.py")}
    adding = {
        ".".join(file.with_suffix("").parts[1:])
        for path, file in files.items()
        if "tests" not in file.parts and re.search(r"^ADDS\b", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert adding and adding <= {*asked.findall(code)}


@pytest.mark.long
def test_the_core_works_without_any(tmp_path: Path) -> None:
    copied = copy_without(EXTRAS, tmp_path)
    verbs, left = (
        {verb.name or verb.function.__name__ for verb in added("verbs", Verb) if origin(verb) not in gone}
        for gone in ((), EXTRAS)
    )
    helped = ran_in(copied, "-m", "simfrontier", "--help", columns="200")
    lines = [line.split() for line in helped.splitlines()]
    assert {words[1] for words in lines if len(words) > 1} & verbs == left
    ran_in(copied, "-m", "simfrontier_real", "--help")
    ran_in(copied, "-c", LOAD)
    ran_in(copied, "-m", "simfrontier", "run", "scenarios/toy.toml", "--devices", "8", "--out", str(tmp_path / "toy"))


def origin(verb: Verb) -> str:
    """The extra that a verb is of."""
    return verb.function.__module__.split(".")[1]


@pytest.mark.deletion
@deleted
def test_the_tests_of_the_core_pass_without(names: list[str], tmp_path: Path) -> None:
    pytest_in(copy_without(names, tmp_path), "-n", "2", "tests")
