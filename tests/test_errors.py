"""Each class of error once: exit code 2, and one line that says what is wrong, where, what is allowed, what is nearest.

A row of a table is a command (or a setting of the toy scenario) and the essential words of its line; `{tmp}` is an
empty folder, in which `file.toml` and `text.txt` hold no simfrontier data."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

import simfrontier as sf
from simfrontier.base.errors import InputError, SimfrontierError
from tests.invoke import TOY, invoke, refusal

TWO_CODES = "data={family='zero1', reduction='all_reduce', gradient_codec='int8:64'}"
SENSITIVITY = "sensitivity={devices=%s, plans=['zero3', '%s'], vary=[{key='training.%s', label='b', values=[2]}]}"
SETTINGS = [
    # keys, types and ranges
    ("training.microbatch=2", "training.microbatch: unknown key", '"micro_batch"'),
    ("qq.b.c=1", "qq: unknown key", "engine"),
    ("training.micro_batch=0", "training.micro_batch", "0", "1"),
    ("training.micro_batch=two", "training.micro_batch", "two", "number"),
    ("engine.overlap=yes", "engine.overlap", "yes", "true or false"),
    ("run.fidelity=flows", "run.fidelity", "flows", '"flow"'),
    ("run=3", "run", "table"),
    ("published={source='x', ratios={zeropq=1.4}}", "published.ratios", "zeropq", "zeropp"),
    # models, machines, libraries
    ("model.name=tini", "tini", '"tiny"'),
    ("model.hidden=66", "hidden", "66", "heads = 4", "heads = 3"),
    ("model.inputs=8", "model.inputs", "GPT"),
    ("machine.name=frontie", "frontie", '"frontier"'),
    ("machine.name=my/own.toml", "my/own.toml", "No such file"),
    ("machine.overrides.device.hbm_byte=1", "device.hbm_byte", "device.hbm_bytes"),
    ("machine.overrides.device.hbm_bytes=-1", "device.hbm_bytes", "-1", "more than 0"),
    ("library.name=rcc", "rcc", '"rccl"'),
    ("library.overrides.shares.nics=1", "shares.nics", "shares.nic"),
    ("library.calibration=no.toml", "library.calibration", "no.toml", "No such file"),
    # sizes, batches and grids
    ("mesh.devices_per_node=3", "mesh", "3 devices per node", "divisor"),
    ("training.batch=12", "training.batch = 12", "8 data-parallel ranks", "8 and 16"),
    # perturbations, sensitivity, degraded machines, goodput
    ("perturbation.slow=[{device=8, factor=0.5}]", "perturbation", "got 8", "0 to 7"),
    ("perturbation.links=[{node=0, link='xgmi 0>2', factor=0.5}]", "perturbation", "xgmi 0>2", "xgmi 3>2"),
    ("perturbation.slow=[{device=1, factor=1.5}]", "perturbation.slow[0].factor", "1.5", "at most 1"),
    ("perturbation.slow=[{device=1, factor=0.5, from_step=3}]", "perturbation.slow", "from_step", "3", "run.steps"),
    (SENSITIVITY % (8, "zero4", "micro_batch"), "sensitivity.plans", "zero4", "zero3"),
    (SENSITIVITY % (6, "ddp", "micro_batch"), "sensitivity.devices", "6 devices", "8"),
    (SENSITIVITY % (8, "ddp", "micro_batches"), "sensitivity.vary[0]", "training.micro_batches", "micro_batch"),
    ("nodes.placement=spred", "nodes.placement", "spred", "spread"),
    ("nodes.list=[0, 16]", "nodes.list", "16", "0 to 15"),
    # what --set itself cannot be
    ("nothing", "--set", "nothing", "key=value"),
    ("training.micro_batch=nan", "training.micro_batch", "finite"),
]
PLANS = [
    ("zero3", "family=zero33", "plans.zero3.family", "zero33", "zero3"),
    ("zero3", "gather_code=1", "plans.zero3.gather_code", "gather_codec"),
    ("zero3", "gather_codec=int9:64", "plans.zero3.gather_codec", "int9:64", "int8"),
    ("zero3", "gather_codec=int8", "plans.zero3.gather_codec", "int8:BLOCK"),
    ("hsdp", "shard=['nod']", "plans.hsdp.shard", "nod", "node"),
    ("hsdp", "gradient_codec=int8:64", "plans.hsdp", "at 8 devices", "all-reduce", "int8:64", "fp16"),
    ("zero2", "gradient_codec=int8:64", "plans.zero2", "all_reduce", "int8:64", "reduce_scatter"),
    ("my-own", "weight=['pack']", "plans.my-own.weight", "pack", "package"),
    ("my-own", "nesting=['gcd']", "plans.my-own.weight", "package", "nesting"),
    ("my-own", "step_reduction=[{axes=['package']}]", "plans.my-own", "step_reduction", "must cross node"),
    ("axonn", "x=3", "plans.axonn", "x = 3", "hidden = 64", "2 and 4"),
    ("axonn", "z=16", "plans.axonn", "16 ranks", "8 devices", "16"),
    ("megatron", "pipeline=4", "plans.megatron", "pipeline = 4", "2 layers", "2"),
    ("megatron", "order=2f2b", "plans.megatron.order", "2f2b", "1f1b"),
    ("megatron", TWO_CODES, "plans.megatron.data", "all_reduce", "int8:64", "reduce_scatter"),
    ("megatron", "data=zero9", "plans.megatron.data", "zero9", "zero3"),
    ("axonn", "search.top=3", "plans.axonn.search", "nothing to search"),
]
COMMANDS = [
    # options
    ("run TOY --plans zero4 --out {tmp}/out", "plans", "zero4", "zero3"),
    ("run TOY --devices eight --out {tmp}/out", "--devices", "eight", "8,64,384"),
    ("run TOY --devices 6 --out {tmp}/out", "run.devices", "6 devices", "toy-cluster", "8"),
    ("run TOY --fidelity flo --out {tmp}/out", "--fidelity", "flo", "flow"),
    ("run TOY --out {tmp}/text.txt", "--out {tmp}/text.txt", "Not a directory"),
    ("run TOY --out ''", "--out", "name"),
    ("run TOY --job 2", "--job"),
    ("run TOY --jobs 0", "--jobs", "1"),
    ("run TOY --jobs 2 --scheduler tcp://a:1", "--scheduler", "--jobs", "one of"),
    ("run TOY --slurm lumo", "--slurm", "lumo", "lumi"),
    ("comapre", "comapre", "compare"),
    ("list model", "model", "models"),
    # files
    ("run {tmp}/none.toml", "{tmp}/none.toml", "No such file"),
    ("run {tmp}", "{tmp}", "a folder", "TOML"),
    ("run {tmp}/text.txt", "{tmp}/text.txt", "TOML"),
    ("run {tmp}/file.toml", "{tmp}/file.toml", "name: missing"),
    ("check {tmp}/none.json", "{tmp}/none.json", "No such file"),
    ("replay {tmp}/text.txt --scenario TOY", "{tmp}/text.txt", "line 1 column 1"),
    ("calibrate {tmp}/text.txt --out {tmp}/out.toml", "{tmp}/text.txt", "nccl-tests"),
    ("run TOY --plans fsdq", 'got "fsdq"', "hsdp"),
    ("validate {tmp}/none.csv", "{tmp}/none.csv", "No such file"),
    ("validate --harness none", "--harness", "file of your own"),
    ("crosscheck {tmp}/none {tmp}", "{tmp}/none", "no such file or folder"),
    # searches, sweeps, explanations, goodput
    ("tune TOY --pin tenser=2 --out {tmp}/out", "--pin", "tenser", "tensor"),
    ("tune TOY --pin codec=weights --out {tmp}/out", "codec", "weights", "--lossy"),
    ("tune TOY --fidelity chunk --out {tmp}/out", "--fidelity", "chunk", "flow"),
    ("explain TOY --plan zero3 --against zero3", "against", "zero3", "another"),
    ("sweep {tmp}/file.toml --out {tmp}/out", "{tmp}/file.toml", "missing"),
    ("goodput TOY --devices 8", "goodput: missing", "failures"),
    # what is not modelled, and the names of other programs
    ("run TOY --plans 'FSDP zero1' --out {tmp}/out", "zero3 and zero1", "separated by ;"),
    ("run TOY --plans ddp,ring-attention", "context parallelism is the keys context and context_by"),
    ("run TOY --set model.name=Mixtral8x22", 'did you mean "mixtral-8x22b"?'),
    ("run TOY --set plans.ddp.cp=2", "context parallelism is the keys context and context_by"),
    ("run TOY --set plans.ddp.ep=8", "expert parallelism is the key expert of"),
    ("schema machines", "schema", "machines", "machine"),
    ("compare --model llama-3-8b --nodes 4 --plans 'pp 32 vp 10'", "of 32 in 320 groups", "1 or more"),
]
REAL = [
    ("tain x", "tain", "train"),
    ("train {tmp}/file.toml --ranks 2", "{tmp}/file.toml", "not JSON"),
    ("train {tmp}/schedule.json --ranks 3", "for 8 ranks", "3 were started"),
    ("train {tmp}/schedule.json --ranks 8 --backend mpi", "--backend", "mpi", "gloo, nccl"),
]
PYTHON: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"devices": "384"}, ("devices", "384", "devices=[8, 64, 384]")),
    ({"devices": [-8]}, ("run.devices[0]", "-8", "at least 1")),
    ({"plans": ["zero--"]}, ("plans", "zero--", "zero-topo")),
    ({"plans": {"mine": {"weight": ["gcd"]}}}, ("plans.mine.accumulator", "missing")),
    ({"fidelity": "packet"}, ("fidelity", "packet", "flow")),
    ({"jobs": 0}, ("jobs", "0", "at least 1")),
    ({"model": 13}, ("model", "13", "gpt-13b")),
    ({"model": {"num_layers": 2}}, ("model", "missing: hidden, heads")),
    ({"scenario": None}, ("machine", "null", "frontier")),
    ({"exact": "no"}, ("exact", "no", "True or False")),
    ({"vary": 1}, ("vary", "1", "True or False")),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file.toml").write_text("", encoding="utf-8")
    (tmp_path / "text.txt").write_text("nothing\n", encoding="utf-8")
    return tmp_path


def has_words(message: str, words: tuple[str, ...]) -> None:
    """The words stand in the line, quotes of either kind."""
    plain = message.replace("'", '"')
    assert [word for word in words if word.replace("'", '"') not in plain] == [], message


@pytest.mark.parametrize("case", SETTINGS, ids=lambda case: case[0][:40])
def test_a_wrong_setting_is_one_line(case: tuple[str, ...], folder: Path) -> None:
    setting, *words = case
    out = folder / "out"
    message = refusal("run", TOY, "--plans", "zero3,ddp", "--devices", "8", "--set", setting, "--out", out)
    has_words(message, tuple(words))
    assert not out.exists()


@pytest.mark.parametrize("case", PLANS, ids=lambda case: f"{case[0]}-{case[1][:30]}")
def test_a_wrong_plan_is_one_line(case: tuple[str, ...], folder: Path) -> None:
    plan, setting, *words = case
    given = ("--plans", plan, "--devices", "8", "--set", f"plans.{plan}.{setting}")
    has_words(refusal("check", TOY, *given), tuple(words))


@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case[0][:40])
def test_a_wrong_command_is_one_line(case: tuple[str, ...], folder: Path) -> None:
    command, *words = (text.replace("{tmp}", str(folder)) for text in case)
    message = refusal(*(TOY if word == "TOY" else word for word in shlex.split(command)))
    has_words(message, tuple(words))
    assert sorted(path.name for path in folder.iterdir()) == ["file.toml", "text.txt"]


@pytest.mark.parametrize("case", REAL, ids=lambda case: case[0][:40])
def test_a_wrong_command_of_the_real_program_starts_no_rank(case: tuple[str, ...], folder: Path) -> None:
    from simfrontier_real.cli import app

    invoke("show", TOY, "--plan", "zero3", "--devices", "8", "--save", folder / "schedule.json")
    command, *words = (text.replace("{tmp}", str(folder)) for text in case)
    with pytest.raises(InputError) as caught:
        typer.main.get_command(app).main(args=shlex.split(command), prog_name="simfrontier-real")
    has_words(str(caught.value), tuple(words))


@pytest.mark.parametrize(("asked", "words"), PYTHON)
def test_a_wrong_call_from_python_is_one_line(asked: dict[str, Any], words: tuple[str, ...]) -> None:
    given = {"scenario": "toy-cluster", "model": "tiny", "plans": ["zero3"], "devices": [8], **asked}
    with pytest.raises(InputError) as caught:
        sf.compare(**given)
    has_words(str(caught.value), words)


@pytest.mark.parametrize(
    ("axis", "words"),
    [
        ({"key": "trainin.micro_batch", "values": [1]}, ("axes[0]", "training.micro_batch")),
        ({"key": "training.micro_batch"}, ("axes[0]", "values", "range", "samples")),
        ({"key": "training.micro_batch", "values": [1, 2, -4]}, ("axes[0]", "training.micro_batch = -4")),
        ({"key": "training.micro_batch", "values": [1], "scale": "log"}, ("axes[0]", "scale", "between")),
    ],
)
def test_a_wrong_axis_of_a_sweep_is_one_line(axis: dict[str, object], words: tuple[str, ...], tmp_path: Path) -> None:
    fields = ", ".join(f"{key} = {json.dumps(value)}" for key, value in axis.items())
    study = tmp_path / "study.toml"
    study.write_text(f'name = "s"\ntitle = "S"\nscenarios = ["{TOY}"]\naxes = [{{ {fields} }}]\n', encoding="utf-8")
    has_words(refusal("sweep", study, "--out", tmp_path / "out"), words)


def test_a_wrong_schedule_file_is_refused_by_every_command_that_reads_one(tmp_path: Path) -> None:
    path = tmp_path / "schedule.json"
    invoke("show", TOY, "--plan", "zero3", "--devices", "8", "--save", path)
    form = json.loads(path.read_text(encoding="utf-8"))
    form["mesh"][0][1] = 0
    path.write_text(json.dumps(form), encoding="utf-8")
    for command in (("check", path), ("show", path), ("replay", path, "--scenario", TOY)):
        has_words(refusal(*command), (str(path), "mesh[0][1]", "0"))


# ── exit code 1 ──


def test_an_answer_that_is_no_ends_with_1() -> None:
    """Nothing fits; what a check says of it is on standard output."""
    none = ("--set", "machine.overrides.device.hbm_bytes=1000", "--plans", "ddp", "--devices", "8")
    ran = invoke("check", TOY, *none)
    assert ran.code == 1 and ran.err == "" and "ddp" in ran.out


def test_a_study_that_fails_ends_with_1_and_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stuck(*_: object) -> None:
        raise SimfrontierError("the step is stuck:\nrank class 0 waits")

    monkeypatch.setattr("simfrontier.interfaces.api.comparison.run_study", stuck)
    ran = invoke("run", TOY, "--out", tmp_path / "out")
    assert (ran.code, ran.out, ran.err) == (1, "", "simfrontier: the step is stuck: rank class 0 waits\n")
    assert not (tmp_path / "out").exists()
