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
from simfrontier.errors import InputError
from simfrontier.extras import Verb, added
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
    ("simulate toy.toml", 'simulate: no such command; did you mean "run"?'),
    ("comapre", 'comapre: no such command; did you mean "compare"?'),
    ("help", 'help: no such command; did you mean "--help"?'),
    ("train made", 'train: no such command; did you mean "simfrontier-real train"?'),
    ("toy.toml", 'toy.toml: no such command; did you mean "run toy.toml"?'),
    ("--verbose run toy.toml", '--verbose: no such option; did you mean "--version"?'),
    ("run", "run: scenario: missing; allowed: scenario file (TOML), e.g. scenarios/frontier-20b.toml"),
    ("list", "list: what: missing; allowed: models, plans, machines, libraries, stacks or keys"),
    ("list model", "what: got 'model'; did you mean \"models\"?"),
    ("run toy.toml --plan zero3", 'run: --plan: no such option; did you mean "--plans"?'),
    ("run toy.toml --gpus 8", 'run: --gpus: no such option; did you mean "--devices"?'),
    ("run toy.toml --output new", 'run: --output: no such option; did you mean "--out"?'),
    ("run toy.toml --devices 8 16", "a list is one word, such as 8,64"),
    ("run toy.toml --set training.grad_accum 4", "a setting is --set key=value"),
    ("run toy.toml --jobs auto", "--jobs: got 'auto'; allowed: a valid integer"),
    ("run toy.toml --jobs 0", "--jobs: got '0'; allowed: greater than or equal to 1"),
    ("run toy.toml --out", "option '--out' requires an argument"),
    ("serve toy.toml --port 99999", "--port: got '99999'; allowed: less than or equal to 65535"),
    ("tune toy.toml --max-error 5%", "--max-error: got '5%'; allowed: a valid number"),
    ("explain toy.toml zero3", "got unexpected extra argument(s) (zero3); a list is one word"),
    ("replay made/schedule-zero3.json", "replay: --scenario: missing; allowed: scenario (TOML) whose machine"),
    ("export toy.toml", "export: --out: missing; allowed: folder for schedule-PLAN.json"),
    ("calibrate results.csv", "calibrate: --out: missing; allowed: calibration file to write (.toml)"),
    ("doctor --jsn", 'doctor: --jsn: no such option; did you mean "--json"?'),
]
FILES: Table = [
    ("run toy", 'did you mean "toy.toml"?'),
    ("run frontier-20.toml", 'did you mean "frontier-20b.toml"?'),
    ("run frontier", '"frontier" is a machine, which compare takes with a model and devices'),
    ("run made", "made: a folder; allowed: a scenario file (TOML), e.g. "),
    ("run empty.toml", "empty.toml: name: missing (and 5 more faults)"),
    ("run results.csv", "a table of results or measurements; allowed: a scenario file (TOML)"),
    ("serve made/schedule-zero3.json", "JSON, as schedules and traces are; allowed: a scenario file (TOML)"),
    ("check made/trace-zero3.json", "not a schedule: got 0.0, allowed: whole numbers alone (a trace has others)"),
    ("replay made --scenario toy.toml", "made: cannot read this schedule: Is a directory"),
    ("crosscheck real made", "real/trace-zero3.json: a real trace; allowed: the simulated one first"),
    ("crosscheck made empty", "no trace-PLAN.json is in both folders (made: zero3; empty: none)"),
    ("crosscheck made/schedule-zero3.json real/trace-zero3.json", 'got "simfrontier.schedule", allowed: a trace'),
    ("validate results.csv", "missing columns: "),
    ("calibrate results.csv --out new.json", "allowed: a name that ends in .toml"),
    ("run toy.toml --out in-the-way", "--out in-the-way: cannot be written: Not a directory"),
    ('run toy.toml --out ""', "--out: got ''; allowed: a name"),
]
NAMES: Table = [
    ("run toy.toml --plans zero++", 'plans: got "zero++"; did you mean "zeropp"?'),
    ('run toy.toml --plans "zero3 zeropp"', "allowed: names separated by commas, e.g. zero3,zero-topo"),
    ("run toy.toml --plans zero3,zero3", 'plans: got "zero3" twice, allowed: every plan once'),
    ('run toy.toml --plans ""', "--plans: got ''; allowed: names separated by commas"),
    ("show toy.toml --plan zero3,ddp", "--plan: got 'zero3,ddp'; allowed: the name of one plan"),
    ("run toy.toml --devices 7", "7 devices do not fill whole nodes of toy-cluster"),
    ("run toy.toml --set model.name=llama-7b", 'did you mean "llama-2-7b"?'),
    ("run toy.toml --set model=gpt-13b", 'model: got "gpt-13b", allowed: a table; did you mean "model.name"?'),
    ("run toy.toml --set machine.name=Frontier", 'did you mean "frontier"?'),
    ("run toy.toml --set machine.device.hbm_bytes=1", 'did you mean "machine.overrides.device.hbm_bytes"?'),
    ("run toy.toml --set machine.overrides.device.memory=1", "is not a number of this machine; allowed: hbm_bytes"),
    ("run toy.toml --set machine.overrides.device.hbm_bytes=64GB", 'got "64GB", allowed: a number'),
    ("run toy.toml --set grad_accum=4", 'grad_accum: unknown key; did you mean "training.grad_accum"?'),
    ("run toy.toml --set training.grad_accum=1e9999", "got 1e9999; allowed: a finite number"),
    ("tune toy.toml --pin tp=2", "'tp' is no dimension of a plan; did you mean \"tensor\"?"),
    (
        "compare --machine frontier",
        "--model and --devices: missing; allowed: --machine, --model and --devices together",
    ),
    ("compare --machine toy-cluster --model tiny --devices 8 --plans zero++", 'did you mean "zeropp"?'),
    ("compare frontier", '"frontier" is a machine, which compare takes with a model and devices'),
    ("crosscheck made real --tolerance -1", "--tolerance: got '-1'; allowed: greater than or equal to 0.000001"),
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
    ("run toy.toml", 'run: no such command; did you mean "simfrontier run"?'),
    ("tain x", 'tain: no such command; did you mean "train"?'),
    ("train", "train: schedules: missing; allowed: schedule files (JSON)"),
    ("train toy.toml --ranks 2", "toy.toml: line 1 column 1: not JSON"),
    ("train made --ranks 4", "made: cannot read this schedule: Is a directory"),
    ("train made/schedule-zero3.json --ranks 3", "is for 4 ranks (node 1 × package 2 × gcd 2), but 3 were started"),
    ("train made/schedule-zero3.json --ranks 4 --backend mpi", "--backend: got 'mpi'; allowed: gloo, nccl"),
    ("train made/schedule-zero3.json --ranks 4 --device gpu", "--device: got 'gpu'; allowed: cpu or cuda"),
    ("train made/schedule-zero3.json --ranks 4 --learning-rate nan", "--learning-rate: got nan"),
    ("train made/schedule-zero3.json --ranks 4 --lr 1", 'train: --lr: no such option; did you mean "'),
    ("train made/trace-zero3.json --ranks 4", "allowed: whole numbers alone (a trace has others)"),
    ("replay made/schedule-zero3.json --ranks 4", "replay: --out: missing; allowed: folder for the traces"),
    (
        "replay made/schedule-zero3.json --ranks 4 --out new --compute fast",
        "--compute: got 'fast'; allowed: none, real",
    ),
    ("replay made/schedule-zero3.json --ranks 4 --out new --waits made", "--waits: goes with --compute wait"),
    ("measure --out new.toml --ranks 100000", "--ranks: 100,000 ranks on this machine; allowed: up to 1,024"),
    ("measure --out new.json --ranks 2", "allowed: a name that ends in .toml"),
    ("measure --out new.toml --sizes huge", "--sizes: got 'huge'; allowed: numbers of bytes or KiB"),
    ("rates --out in-the-way", "in-the-way is a file; allowed: a folder"),
    ("device --json", "device: --json: no such option; "),
    ("gpu --ranks 4", "gpu: --ranks: no such option; "),
]


@pytest.mark.parametrize(("typed", "said"), REAL)
def test_a_mistake_is_told_before_a_rank_is_started(typed: str, said: str, folder: Path) -> None:
    from simfrontier_real.cli import app

    before = files(folder)
    with pytest.raises(InputError) as caught:
        typer.main.get_command(app).main(args=shlex.split(typed), prog_name="simfrontier-real")
    assert said in str(caught.value) and "\n" not in str(caught.value)
    assert files(folder) == before


def test_the_list_has_the_verbs_of_both_programs() -> None:
    from simfrontier.cli import app_of
    from simfrontier.usage import VERBS
    from simfrontier_real.cli import app

    simulated, real = ({*vars(typer.main.get_command(each))["commands"]} for each in (app_of(), app))
    of_extras = {each.name or each.function.__name__ for part in ("verbs", "real.verbs") for each in added(part, Verb)}
    assert {*VERBS["simfrontier"]} == simulated - of_extras and {*VERBS["simfrontier-real"]} == real - of_extras


def compared(**asked: Any) -> sf.Comparison:
    given: dict[str, Any] = {"plans": ["zero3"], "devices": [8], **asked}
    return sf.compare(given.pop("machine", "toy-cluster"), given.pop("model", "tiny"), given.pop("plans"), **given)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"devices": "384"}, 'devices: got "384", allowed: numbers of devices, e.g. devices=[8, 64, 384]'),
        ({"devices": ["8"]}, 'devices: got ["8"], allowed: numbers of devices'),
        ({"devices": 8.0}, "devices: got 8.0, allowed: numbers of devices"),
        ({"devices": None}, "devices: got null, allowed: numbers of devices"),
        ({"devices": True}, "devices: got true, allowed: numbers of devices"),
        ({"devices": -8}, "run.devices[0]: got -8, allowed: at least 1"),
        ({"plans": "zero3,zeropp"}, 'plans: got "zero3,zeropp", allowed: names of plans'),
        ({"plans": ["zero3", "zero3"]}, 'plans: got "zero3" twice, allowed: every plan once'),
        ({"plans": ["zero++"]}, 'plans: got "zero++"; did you mean "zeropp"?'),
        ({"plans": [{"weight": ["gcd"]}]}, "allowed: names of plans"),
        ({"plans": {"mine": {"weight": "gcd"}}}, 'plans.mine.weight: got "gcd", allowed: a list'),
        ({"plans": {"mine": {"weight": ["gcd"]}}}, "plans.mine.accumulator: missing (and 1 more fault)"),
        ({"settings": "training.grad_accum=4"}, "allowed: a dict of dotted keys"),
        ({"settings": {"grad_accum": 4}}, 'did you mean "training.grad_accum"?'),
        ({"settings": {"training.grad_accum": object()}}, "allowed: texts, numbers, lists and tables"),
        ({"fidelity": "packet"}, "fidelity: got 'packet'; allowed: analytic, chunk, flow"),
        ({"jobs": 0}, "jobs: got 0, allowed: at least 1"),
        ({"jobs": 100_000}, "jobs: got 100,000 processes; allowed: up to 1,024"),
        ({"jobs": "2"}, 'jobs: got "2", allowed: a whole number of at least 1'),
        ({"model": 13}, 'model: got 13, allowed: the name of a model, e.g. "gpt-13b"'),
        ({"machine": "gpt-13b", "model": "frontier"}, "allowed: the machine first, then the model"),
    ],
)
def test_a_comparison_that_cannot_be_is_one_line(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        compared(**asked)
    assert said in str(caught.value) and "\n" not in str(caught.value)


CALLS: list[tuple[Any, str]] = [
    (lambda: sf.load(3), "got 3, allowed: the path of a scenario file (TOML)"),  # type: ignore[arg-type]
    (lambda: sf.load(""), 'got "", allowed: the path of a scenario file (TOML)'),
    (lambda: sf.load("toy.toml", devices="8"), 'devices: got "8", allowed: numbers of devices'),  # type: ignore[arg-type]
    (lambda: sf.compare("frontier"), '"frontier" is a machine, which compare takes with a model and devices'),
    (lambda: sf.simulate("toy.toml", ["zero3"]), "allowed: the name of one plan"),  # type: ignore[arg-type]
    (lambda: sf.simulate("toy.toml", devices=[8]), "allowed: one number of devices"),  # type: ignore[arg-type]
    (lambda: sf.simulate("toy.toml", fidelity="packet"), "fidelity: got 'packet'"),  # type: ignore[arg-type]
    (lambda: sf.tune("toy.toml", pins="tensor=2"), "allowed: a dict of dimensions"),  # type: ignore[arg-type]
    (lambda: sf.tune("toy.toml", pins={"tp": 2}), 'did you mean "tensor"?'),
    (lambda: sf.tune("toy.toml", devices=8, simulate=0), "simulate: got 0, allowed: at least 1"),
    (lambda: sf.explain("toy.toml", devices=[8]), "allowed: one number of devices"),  # type: ignore[arg-type]
    (lambda: sf.validate(["results.csv"]), "allowed: paths of files"),  # type: ignore[arg-type]
    (lambda: sf.validate(machine="frontier"), "allowed: beside these"),
]


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_a_call_that_cannot_be_is_one_line(call: Any, said: str) -> None:
    with pytest.raises(InputError) as caught:
        call()
    assert said in str(caught.value) and "\n" not in str(caught.value)


def test_what_is_said_in_another_way_is_meant() -> None:
    """One plan, one size, and a whole number of numpy's."""
    numpy = pytest.importorskip("numpy")
    scenario = sf.load("toy.toml", plans="zero3", devices=numpy.int64(8))
    assert (list(scenario.plans), scenario.file.run.devices) == (["zero3"], [8])
    assert os.path.samefile(scenario.where, "toy.toml")
