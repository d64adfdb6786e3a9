"""What somebody new gets wrong, and the one line that says what is allowed: commands, files, settings, Python."""

from __future__ import annotations

import os
import shlex
import shutil
from pathlib import Path
from typing import Any

import pytest
import typer

import simfrontier as sf
from simfrontier.base.errors import InputError
from tests.invoke import ROOT, invoke, refusal

Table = list[tuple[str, str]]  # what is typed, and a part of what is said


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as newcomers have it: a scenario, results, a schedule with its trace, and a file in the way."""
    place = tmp_path_factory.mktemp("newcomer")
    for name in ("toy.toml", "frontier-20b.toml"):
        shutil.copy(ROOT / "scenarios" / name, place)
    assert invoke("export", place / "toy.toml", "--plans", "zero3", "--devices", "4", "--out", place / "made").code == 0
    trace = (place / "made" / "trace-zero3.json").read_text(encoding="utf-8")
    (place / "real").mkdir()
    (place / "real" / "trace-zero3.json").write_text(trace.replace('"mode":"simulated"', '"mode":"train"'))
    (place / "empty").mkdir()
    (place / "empty.toml").write_text("")
    (place / "results.csv").write_text("plan,devices\nzero3,8\n")
    (place / "in-the-way").write_text("mine")
    return place


@pytest.fixture(autouse=True)
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


WORDS: Table = [
    ("comapre", "No such command 'comapre'. Did you mean 'compare'?"),
    ("list model", "what: got 'model'; did you mean \"models\"?"),
    ("run toy.toml --plan zero3", "run: No such option: --plan (Possible options: "),
    ("run toy.toml --devices 8 16", "Got unexpected extra argument(s) (16)"),
    ("run toy.toml --jobs 0", "Invalid value for '--jobs': Input should be greater than or equal to 1"),
]
FILES: Table = [
    ("run toy", 'did you mean "toy.toml"?'),
    ("run frontier", '"frontier" is a machine, which compare takes with a model and devices'),
    ("run empty.toml", "empty.toml: name: missing (and 5 more faults)"),
    ("run results.csv", "a table of results or measurements; allowed: a scenario file (TOML)"),
    ("replay made --scenario toy.toml", "made: cannot read this schedule: Is a directory"),
    ("crosscheck real made", "real/trace-zero3.json: a real trace; allowed: the simulated one first"),
    ("validate results.csv", "missing columns: "),
    ("run toy.toml --out in-the-way", "--out in-the-way: cannot be written: Not a directory"),
]
NAMES: Table = [
    ("run toy.toml --plans zero++", 'plans: got "zero++"; did you mean "zeropp"?'),
    ("run toy.toml --devices 7", "7 devices do not fill whole nodes of toy-cluster"),
    ("run toy.toml --set model.name=llama-7b", 'did you mean "llama-2-7b"?'),
    ("run toy.toml --set model=gpt-13b", 'model: got "gpt-13b", allowed: a table; did you mean "model.name"?'),
    ("run toy.toml --set machine.overrides.device.memory=1", "is not a number of this machine; allowed: hbm_bytes"),
    ("run toy.toml --set machine.overrides.device.hbm_bytes=64GB", 'got "64GB", allowed: a number'),
    ("run toy.toml --set grad_accum=4", 'grad_accum: unknown key; did you mean "training.grad_accum"?'),
    ("tune toy.toml --pin tp=2", "'tp' is no dimension of a plan; did you mean \"tensor\"?"),
    ("compare --machine toy-cluster --model tiny --devices 8 --plans zero++", 'did you mean "zeropp"?'),
]


@pytest.mark.parametrize(("typed", "said"), [*WORDS, *FILES, *NAMES])
def test_a_mistake_is_one_line_and_leaves_nothing(typed: str, said: str, folder: Path) -> None:
    before = files(folder)
    assert said in refusal(*shlex.split(typed))
    assert files(folder) == before


@pytest.mark.parametrize("typed", ["", "-h", "--help", "run -h"])
def test_who_asks_for_help_gets_it(typed: str) -> None:
    ran = invoke(*shlex.split(typed))
    assert (ran.code, ran.err) == (0, "") and "Usage:" in ran.out


REAL: Table = [
    ("tain x", "No such command 'tain'. Did you mean 'train'?"),
    ("train toy.toml --ranks 2", "toy.toml: line 1 column 1: not JSON"),
    ("train made/schedule-zero3.json --ranks 3", "is for 4 ranks (node 1 × package 2 × gcd 2), but 3 were started"),
    ("train made/schedule-zero3.json --ranks 4 --backend mpi", "--backend: got 'mpi'; allowed: gloo, nccl"),
]


@pytest.mark.parametrize(("typed", "said"), REAL)
def test_a_mistake_is_told_before_a_rank_is_started(typed: str, said: str, folder: Path) -> None:
    from simfrontier_real.cli import app

    before = files(folder)
    with pytest.raises(InputError) as caught:
        typer.main.get_command(app).main(args=shlex.split(typed), prog_name="simfrontier-real")
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert files(folder) == before


def compared(**asked: Any) -> sf.Comparison:
    given: dict[str, Any] = {"plans": ["zero3"], "devices": [8], **asked}
    return sf.compare(given.pop("machine", "toy-cluster"), given.pop("model", "tiny"), given.pop("plans"), **given)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"devices": "384"}, 'devices: got "384", allowed: numbers of devices, e.g. devices=[8, 64, 384]'),
        ({"devices": -8}, "run.devices[0]: got -8, allowed: at least 1"),
        ({"plans": ["zero++"]}, 'plans: got "zero++"; did you mean "zeropp"?'),
        ({"plans": {"mine": {"weight": ["gcd"]}}}, "plans.mine.accumulator: missing (and 1 more fault)"),
        ({"fidelity": "packet"}, "fidelity: got 'packet'; allowed: analytic, chunk, flow"),
        ({"jobs": 0}, "jobs: got 0, allowed: at least 1"),
        ({"model": 13}, 'model: got 13, allowed: the name of a model, e.g. "gpt-13b"'),
    ],
)
def test_a_comparison_that_cannot_be_is_one_line(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        compared(**asked)
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_said_in_another_way_is_meant() -> None:
    """One plan, one size, and a whole number of numpy's."""
    numpy = pytest.importorskip("numpy")
    scenario = sf.load("toy.toml", plans="zero3", devices=numpy.int64(8))
    assert (list(scenario.plans), scenario.file.run.devices) == (["zero3"], [8])
    assert os.path.samefile(scenario.where, "toy.toml")
