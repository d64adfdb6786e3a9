"""Scenarios that cannot be: exit code 2 and one line naming file, key, what was got and what is allowed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.invoke import TOY, refusal, said_of, said_of_file

# ── files ──


def test_an_empty_file_lacks_a_name(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b"")
    assert said_of_file(path, tmp_path) == "name: missing (and 5 more faults)"


@pytest.mark.parametrize(
    "content",
    [b"name = ", b"\x7fELF\x00\x01", b'name = "\xff"', b"a = 1\na = 2", b"a = " + b"[" * 5000, b"a = " + b"9" * 5000],
)
def test_a_file_that_is_not_toml_says_so(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    assert said_of_file(path, tmp_path).startswith("not a TOML file: ")  # the reason is in the parser's words


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path) -> None:
    assert said_of_file(tmp_path / "no.toml", tmp_path) == "cannot read this scenario: No such file or directory"
    said = "a folder; allowed: a scenario file (TOML), e.g. scenarios/frontier-20b.toml"
    assert said_of_file(tmp_path, tmp_path) == said


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name = "toy"', 'nam = "toy"', 'nam: unknown key; did you mean "name"? (and 1 more fault)'),
        ('name = "toy"', "", "name: missing"),
        ('name = "toy"', "name = 3", "name: got 3, allowed: a text"),
        (
            'name = "toy"',
            'name = "../toy"',
            'name: got "../toy", allowed: letters, digits and . _ - (files are called after it)',
        ),
        ("[run]", "[runs]", 'runs: unknown key; did you mean "run"? (and 1 more fault)'),
        ("devices = [2, 4, 8, 16]", "", "run.devices: missing"),
        ("[2, 4, 8, 16]", "[2, 4, 2]", "run.devices: got 2 twice, allowed: every size once"),
        ("[2, 4, 8, 16]", "[2, 0]", "run.devices[1]: got 0, allowed: at least 1"),
        ("[2, 4, 8, 16]", "[-4]", "run.devices[0]: got -4, allowed: at least 1"),
        ("[2, 4, 8, 16]", '["4"]', 'run.devices[0]: got "4", allowed: a whole number'),
        ("[2, 4, 8, 16]", "[4.0]", "run.devices[0]: got 4.0, allowed: a whole number"),
        ("[2, 4, 8, 16]", "[true]", "run.devices[0]: got true, allowed: a whole number"),
        ("[2, 4, 8, 16]", "4", "run.devices: got 4, allowed: a list"),
        (
            "[2, 4, 8, 16]",
            "[8, 6]",
            "run.devices: 6 devices do not fill whole nodes of toy-cluster (16 nodes of 4 devices), use 4 or 8",
        ),
        (
            "[2, 4, 8, 16]",
            "[128]",
            "run.devices: 128 devices do not fill whole nodes of toy-cluster (16 nodes of 4 devices), use 64",
        ),
        (
            "[plans.ddp]",
            '[plans."a/b"]',
            'plans.a/b: got "a/b", allowed: letters, digits and . _ - (files are called after it)',
        ),
        ("[plans.ddp]", "[plans.zero4]", 'plans.zero4.family: got "zero4"; did you mean "zero3"?'),
        (
            "[plans.ddp]",
            '[plans.ddp]\n"a\\nb" = 1',
            "plans.ddp.a b: unknown key; allowed: attention, checkpointing, family, gather_codec, grad_accum, "
            "gradient_codec, micro_batch, overlap_statistics, softmax",
        ),
    ],
)
def test_each_fault_of_a_scenario_is_one_clear_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    text = TOY.read_text(encoding="utf-8")
    assert old in text
    path = tmp_path / "mine.toml"
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    assert said_of_file(path, tmp_path) == message


# ── keys, types, sizes ──

OVERRIDE = "toy-cluster.toml, with overrides: "


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("training.micro_batch=0", "training.micro_batch: got 0, allowed: at least 1"),
        ("training.micro_batch=-1", "training.micro_batch: got -1, allowed: at least 1"),
        ("training.micro_batch=1.5", "training.micro_batch: got 1.5, allowed: a whole number"),
        ("training.micro_batch=two", 'training.micro_batch: got "two", allowed: a whole number'),
        (
            "training.micro_batch=99999999999999999999",
            "training.micro_batch: got 99999999999999999999, allowed: at most 1048576",
        ),
        ("training.microbatch=2", 'training.microbatch: unknown key; did you mean "micro_batch"?'),
        ("training.grad_accum=0", "training.grad_accum: got 0, allowed: at least 1"),
        ("training.grad_accum=1001", "training.grad_accum: got 1001, allowed: at most 1000"),
        ("training=3", "training: got 3, allowed: a table { micro_batch, grad_accum, batch }"),
        (
            "run.fidelity=flows",
            'run.fidelity: got "flows", allowed: "analytic", "flow" or "chunk"; did you mean "flow"?',
        ),
        ("run.placement=round", 'run.placement: got "round", allowed: "block" or "cyclic"'),
        ("run=3", "run.devices: run is not a table"),
        ("name.x=3", "name.x: name is not a table"),
        ("plans=3", "plans: got 3, allowed: a table"),
        ("model.sequence=0", "model.sequence: got 0, allowed: at least 1"),
        ("model.checkpointing=half", 'model.checkpointing: got "half", allowed: "full", "selective" or "none"'),
        ("model.name=tini", "model 'tini': did you mean \"tiny\"?"),
        ("model.precision=fp8", 'model.precision: got "fp8", allowed: "fp16", "bf16", "fp32" or "fp64"'),
        ("model.inputs=0", "model.inputs: got 0, allowed: at least 1"),
        (
            "model.inputs=8",
            "model.inputs: tiny is a GPT, whose sizes are num_layers, hidden, heads, vocabulary, sequence",
        ),
        (
            "model.hidden=66",
            "model tiny: hidden = 66 does not divide into heads = 4; nearest that does: heads = 3",
        ),
        (
            "machine.name=frontie",
            'machine "frontie" is not in the catalog; did you mean "frontier"? '
            "(a file of your own: give its path, ending in .toml)",
        ),
        ("machine.name=my/own.toml", "my/own.toml: cannot read this machine file: No such file or directory"),
        (
            "library.name=rcc",
            "library 'rcc': did you mean \"rccl\"? (a file of your own: give its path, ending in .toml)",
        ),
        ("library.name=my/own", "my/own: cannot read this library file: No such file or directory"),
        (
            "machine.overrides.device.hbm_byte=1",
            f'{OVERRIDE}"device.hbm_byte" is not a number of this machine; did you mean "device.hbm_bytes"?',
        ),
        (
            "machine.overrides.device.hbm_bytes=-1",
            f"{OVERRIDE}device.hbm_bytes.value: got -1.0, allowed: more than 0 and at most 1e+30",
        ),
        (
            "machine.overrides.device.hbm_bytes=16GB",
            'machine.overrides.device.hbm_bytes: got "16GB", allowed: a number',
        ),
        ("machine.overrides=3", "machine.overrides: got 3, allowed: a table"),
        (
            "library.overrides.shares.nics=1",
            "rccl.toml: 'shares.nics' is not a number of this library; did you mean \"shares.nic\"?",
        ),
        (
            "library.overrides.shares.nic=2",
            "rccl.toml, with overrides: shares.nic.value: got 2.0, allowed: more than 0 and at most 1",
        ),
        ("engine.overlap=yes", 'engine.overlap: got "yes", allowed: true or false'),
        ("engine.live_elements=0", "engine.live_elements: got 0, allowed: at least 1 and at most 1099511627776"),
        (
            "engine.prefetch_elements=-1",
            "engine.prefetch_elements: got -1, allowed: at least 0 and at most 1099511627776",
        ),
        (
            "engine.granularity=modul",
            'engine.granularity: got "modul", allowed: "module" or "layer"; did you mean "module"?',
        ),
    ],
)
def test_each_bad_setting_is_one_clear_line(tmp_path: Path, setting: str, message: str) -> None:
    assert said_of([setting], tmp_path) == message


def test_an_unknown_table_lists_what_there_is(tmp_path: Path) -> None:
    message = said_of(["qq.b.c=1"], tmp_path)
    assert re.fullmatch(r"qq: unknown key; allowed: at, .*engine, .*library, .* and \d+ more", message)


SIZES = "num_layers, hidden, heads, vocabulary, sequence"
SHAPE = ["model.name=own", "model.num_layers=2", "model.hidden=64", "model.vocabulary=256"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            [*SHAPE, "model.heads=4"],
            f"model: a shape of your own needs all of {SIZES}; missing: sequence",
        ),
        (
            [*SHAPE, "model.heads=5", "model.sequence=32"],
            "model own: hidden = 64 does not divide into heads = 5; nearest that does: heads = 4",
        ),
        (
            [*SHAPE, "model.heads=0", "model.sequence=32"],
            "model.heads: got 0, allowed: at least 1",
        ),
        (
            ["model.name=own", "model.inputs=8", "model.hidden=64"],
            "model: a shape of your own needs all of num_layers, inputs, hidden, classes; missing: num_layers, classes",
        ),
        (
            ["model.name=own", "model.inputs=8", "model.heads=4"],
            "model.heads: own is an MLP, whose sizes are num_layers, inputs, hidden, classes",
        ),
        (
            ["model.name=tiny-mlp", "model.sequence=8"],
            "model.sequence: tiny-mlp is an MLP, whose sizes are num_layers, inputs, hidden, classes",
        ),
        (
            ["model.name=tiny-mlp", "model.gated=true"],
            "model.gated: tiny-mlp is an MLP, which has none; allowed: a GPT",
        ),
        (
            ["model.name=tiny", "model.kv_heads=3"],
            "model tiny: heads = 4 does not divide into kv_heads = 3; nearest that does: kv_heads = 2",
        ),
        (
            ["model.name=tiny", "model.positions=rope"],
            'model.positions: got "rope", allowed: "none", "learned", "rotary" or "alibi"',
        ),
    ],
)
def test_shapes_of_ones_own_are_whole(tmp_path: Path, settings: list[str], message: str) -> None:
    assert said_of(settings, tmp_path) == message


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "--set 'nothing': write key=value, e.g. training.micro_batch=4"),
        ("=3", "--set '=3': write key=value, e.g. training.micro_batch=4"),
        ("training.micro_batch=nan", "--set training.micro_batch: got nan; allowed: a finite number"),
        ("training.micro_batch=-inf", "--set training.micro_batch: got -inf; allowed: a finite number"),
        (
            f"run.devices={'[' * 60}{']' * 60}",
            "--set run.devices: nested too deeply; allowed: 40 levels",
        ),
    ],
)
def test_settings_are_keys_and_finite_values(tmp_path: Path, text: str, message: str) -> None:
    assert refusal("run", TOY, "--out", tmp_path / "out", "--set", text) == message


# ── perturbation, sensitivity, published ──


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "slow=[{device=8, factor=0.5}]",
            ": at 8 devices: slow device: got 8; this job has devices 0 to 7",
        ),
        (
            'links=[{node=2, link="xgmi 0>1", factor=0.5}]',
            ": at 8 devices: link 'xgmi 0>1': got node 2; this job has nodes 0 to 1",
        ),
        (
            'links=[{node=0, link="xgmi 0>2", factor=0.5}]',
            ": at 8 devices: link of node 0 of toy-cluster: got 'xgmi 0>2'; did you mean \"xgmi 3>2\"?",
        ),
        ("slow=[{device=1, factor=-0.1}]", ".slow[0].factor: got -0.1, allowed: at least 0 and at most 1"),
        ("slow=[{device=1, factor=1.5}]", ".slow[0].factor: got 1.5, allowed: at least 0 and at most 1"),
        ("slow=[{device=1, factor=nan}]", ".slow[0].factor: got NaN, allowed: a finite number"),
        ("slow=[{factor=0.5}]", ".slow[0].device: missing"),
        (
            "slow=[{device=1, factor=0.5}, {device=1, factor=0.6}]",
            ".slow: got device 1 twice, allowed: every device once at a time",
        ),
        (
            'links=[{node=0, link="hbm 0", factor=0.5}, {node=0, link="hbm 0", factor=0.6}]',
            ".links: got hbm 0 of node 0 twice, allowed: every link once at a time",
        ),
        (
            "pools=[{source=0, target=1, factor=0.5}, {source=0, target=1, factor=0.6}]",
            ".pools: got global links 0>1 twice, allowed: every pool once at a time",
        ),
        (
            "pools=[{source=0, target=1, factor=0.5}]",
            ": at 8 devices: global pool: got 0>1; this job has no global pools",
        ),
    ],
)
def test_a_perturbation_names_what_is_there(tmp_path: Path, setting: str, message: str) -> None:
    assert said_of([f"perturbation.{setting}"], tmp_path) == f"perturbation{message}"


SENSITIVITY = 'sensitivity={ devices = 8, plans = ["zero3", "ddp"], vary = [%s] }'
VARY = '{ key = "training.micro_batch", label = "micro-batch", values = [2] }'


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            SENSITIVITY.replace("ddp", "zero4") % "",
            '.plans: "zero4" is not a plan of this scenario; did you mean "zero3"?',
        ),
        (
            SENSITIVITY.replace('"zero3", "ddp"', "") % "",
            ".plans: got [], allowed: a list of at least 1",
        ),
        (
            SENSITIVITY.replace("= 8", "= 6") % "",
            ".devices: 6 devices do not fill whole nodes of toy-cluster (16 nodes of 4 devices), use 4 or 8",
        ),
        (
            SENSITIVITY % VARY.replace("values", "value"),
            '.vary[0].value: unknown key; did you mean "values"? (and 1 more fault)',
        ),
        (
            SENSITIVITY % VARY.replace("[2]", "[]"),
            ".vary[0].values: got [], allowed: a list of at least 1",
        ),
        (
            SENSITIVITY % VARY.replace("_batch", "_batches"),
            '.vary[0]: training.micro_batches: unknown key; did you mean "micro_batch"?',
        ),
        (
            SENSITIVITY % VARY.replace("[2]", "[2, 0]"),
            ".vary[0]: training.micro_batch: got 0, allowed: at least 1",
        ),
        ("sensitivity.plans=3", ".devices: missing (and 2 more faults)"),
        ('sensitivity.plans=[["zero3"]]', ".devices: missing (and 2 more faults)"),
    ],
)
def test_what_cannot_be_varied_is_refused_before_anything_runs(tmp_path: Path, setting: str, message: str) -> None:
    assert said_of([setting], tmp_path, "zero3,ddp") == f"sensitivity{message}"


def test_published_figures_are_of_plans_that_are_there(tmp_path: Path) -> None:
    message = said_of(['published={ source = "x", ratios = { zeropq = 1.4 } }'], tmp_path)
    assert message == 'published.ratios: "zeropq" is not a plan of this scenario; did you mean "zeropp"?'
    message = said_of(['published={ source = "x", ratios = { zeropp = 0 } }'], tmp_path)
    assert message == "published.ratios.zeropp: got 0, allowed: more than 0"
