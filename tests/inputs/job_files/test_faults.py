"""The verb: two commands from a model's file to an answer, and files that no reader can use, which end in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

import simfrontier as sf
from tests.inputs.job_files.samples import LLAMA_3_8B, LOG, MEGATRON, NEMO, NEOX, TITAN, ZERO_3, written
from tests.invoke import invoke, refusal

FILES: Final = {
    "run.sh": MEGATRON,
    "job.log": LOG,
    "20B.yml": NEOX,
    "8b.toml": TITAN,
    "llama.yaml": NEMO,
}


def test_two_commands_from_a_model_to_an_answer(tmp_path: Path) -> None:
    config, out = written(tmp_path, "config.json", LLAMA_3_8B), tmp_path / "mine.toml"
    ran = invoke("import-job", config, "--nodes", "2", "--out", out)
    assert ran.code == 0 and "8,030,261,248 parameters" in ran.out
    assert "Assumed: model.sequence = 4096" in ran.out and "Assumed: model.precision" in ran.out
    step = sf.simulate(out, "zero3", fidelity="analytic")
    same = sf.import_job(config, nodes=2)
    assert step.step_s == sf.simulate(same, "zero3", fidelity="analytic").step_s
    assert invoke("check", out).code == 0


def test_without_out_the_scenario_is_printed(tmp_path: Path) -> None:
    config, out = written(tmp_path, "config.json", LLAMA_3_8B), tmp_path / "imported.toml"
    printed = invoke("import-job", config, "--nodes", "2").out
    assert invoke("import-job", config, "--nodes", "2", "--out", out).code == 0
    assert out.read_text(encoding="utf-8") == printed


def test_cut_files_are_refused_and_leave_nothing(tmp_path: Path) -> None:
    files = {"config.json": LLAMA_3_8B, "ds.json": ZERO_3}
    paths = [written(tmp_path, name, content) for name, content in files.items()]
    paths += [written(tmp_path, name, FILES[name]) for name in ("20B.yml", "8b.toml", "llama.yaml")]
    for path in paths:
        text = path.read_text(encoding="utf-8")
        path.write_text(text[: text.rindex("model" if path.name == "8b.toml" else ",") + 2], encoding="utf-8")
        message = refusal("import-job", path, "--devices", "32", "--out", tmp_path / "mine.toml")
        assert message.startswith(f"{path}: ")
        assert not (tmp_path / "mine.toml").exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.json", {**LLAMA_3_8B, "frobnicate": 3}),
        ("run.sh", MEGATRON.replace("--bf16", "--bf16 --frobnicate 3")),
        ("job.log", LOG + "0:   frobnicate ................. 3\n"),
        ("20B.yml", NEOX.replace('"pos-emb"', '"frobnicate": 3, "pos-emb"')),
        ("8b.toml", TITAN + "frobnicate = 3\n"),
        ("llama.yaml", NEMO + "frobnicate: 3\n"),
    ],
    ids=["hugging-face", "script", "log", "gpt-neox", "torchtitan", "nemo"],
)
def test_no_field_is_dropped_silently(tmp_path: Path, name: str, content: str | dict[str, Any]) -> None:
    path, out = written(tmp_path, name, content), tmp_path / "mine.toml"
    more = [] if name in ("config.json", "run.sh", "job.log", "8b.toml") else ["--set", "model.vocabulary=32000"]
    ran = invoke(
        "import-job", path, "--devices", "96" if name == "20B.yml" else "32", *more, "--machine", "eos", "--out", out
    )
    assert ran.code == 0, ran.err
    assert "frobnicate" in out.read_text(encoding="utf-8").partition("[machine]")[0]
    assert "Not read" in ran.out


@pytest.mark.parametrize("name", ["run.sh", "job.log"])
def test_arguments_without_their_end_lack_a_size(tmp_path: Path, name: str) -> None:
    path = written(tmp_path, name, FILES[name][: FILES[name].index("seq" if name == "run.sh" else "num_")])
    assert "allowed: --set model." in refusal("import-job", path, "--devices", "32")


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("mine.json", "[1, 2]", "no configuration of a job known here, allowed: config.json of Hugging Face"),
        ("mine.toml", '[machine]\nname = "frontier"\n', "no configuration of a job known here"),
        ("notes.txt", "some words", "no configuration of a job known here"),
        ("launch.sh", "[ -z $A ] && exit 1\nsrun train.sh\n", "no configuration of a job known here"),
        ("a.yaml", "a: &b [1]\nc: *b\n", "not YAML: it has aliases"),
        ("a.yaml", "model: {flavor: 8B\n", "line 2 column 1: not YAML"),
        ("a.yaml", "num_layers: 2024-01-01\n", "not YAML: got the date or time"),
        ("a.json", '{"model_type": "llama"', "not JSON"),
        ("b.json", b"\xff\xfe{".decode("latin-1"), "allowed"),
        ("8b.toml", '[model]\nflavor = "9B"\n', 'model.flavor: got "llama3 9B"'),
        ("ds.json", '{"zero_optimization": {"stage": 4}}', "zero_optimization.stage: got 4, allowed: 0, 1, 2, 3"),
        ("a.yml", '{"pipe_parallel_size": "two"}', 'pipe_parallel_size: got "two", allowed: a number'),
    ],
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, name: str, content: str, said: str) -> None:
    assert said in refusal("import-job", written(tmp_path, name, content), "--devices", "32")


def test_options_are_refused_as_everywhere(tmp_path: Path) -> None:
    config = written(tmp_path, "config.json", LLAMA_3_8B)
    assert "cannot read this" in refusal("import-job", tmp_path / "none.json", "--devices", "32")
    assert "did you mean" in refusal("import-job", config, "--machine", "fronteir", "--devices", "32")
    assert "zero9" in refusal("import-job", config, "--devices", "32", "--plans", "zero9; tp 2")
    assert "one of the two" in refusal("import-job", config, "--devices", "32", "--nodes", "4")
    assert "model.hiden" in refusal("import-job", config, "--devices", "32", "--set", "model.hiden=3")
