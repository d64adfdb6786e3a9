"""Figures that the documentation quotes are what their commands give today. `pytest --golden` rewrites those that are
not; a new figure is a sentence in the list below (of an extra: in its `tests/quoted.py`), with fields where its
numbers stand."""

from __future__ import annotations

import importlib.util
import shlex
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from simfrontier.base.extras import added
from tests.documented import Quoted, Read, Results, said_again, searched, sentence_in, study
from tests.invoke import ROOT, invoke

OF_CORE = (
    Quoted(
        page="docs/whole-machine.md",
        command="run scenarios/whole-machine-20b.toml --plans zero3,hsdp,zero-topo --devices 75264 --no-sensitivity",
        read=study,
        sentences=(
            "90 % of the samples are {neox_low[zero3]:.2f} to {neox_high[zero3]:.2f} TFLOPS for ZeRO-3 (median"
            " {neox[zero3]:.2f}), {neox_low[hsdp]:.1f} to {neox_high[hsdp]:.1f} for HSDP ({neox[hsdp]:.1f}) and"
            " {neox_low[zero-topo]:.2f} to {neox_high[zero-topo]:.2f} for ZeRO-topo ({neox[zero-topo]:.2f})",
            "| hsdp | RCCL's choice | {nominal_step[hsdp]:.2f} | {compute[hsdp]:.2f} | 0.22 | 47 |",
        ),
    ),
    Quoted(
        page="docs/zero-topo.md",
        command="run scenarios/frontier-20b.toml --devices 384 --no-sensitivity",
        read=study,
        sentences=(
            "| predicted, TFLOPS per GCD"
            " | {neox[zero3]:.1f} ({neox_low[zero3]:.1f} to {neox_high[zero3]:.1f})"
            " | {neox[zeropp]:.1f} ({neox_low[zeropp]:.1f} to {neox_high[zeropp]:.1f})"
            " | {neox[zero-topo]:.1f} ({neox_low[zero-topo]:.1f} to {neox_high[zero-topo]:.1f}) |",
            "| the same, nominal"
            " | {neox_nominal[zero3]:.1f} | {neox_nominal[zeropp]:.1f} | {neox_nominal[zero-topo]:.1f} |",
            "| predicted, relative | 1 | {ratio[zeropp]:.3f}"
            " ({ratio_low[zeropp]:.3f} to {ratio_high[zeropp]:.3f})"
            " | {ratio[zero-topo]:.3f}"
            " ({ratio_low[zero-topo]:.3f} to {ratio_high[zero-topo]:.3f}) |",
            "it is {ratio_off[zeropp]:.0f} % below for ZeRO++ and {ratio_off[zero-topo]:.0f} % below for ZeRO-topo.",
            "Compute takes {compute[zero3]:.1f} s of ZeRO-3's nominal step of {nominal_step[zero3]:.1f} s",
        ),
    ),
    Quoted(
        page="docs/zero-topo.md",
        command="run scenarios/frontier-20b.toml --plans zero3,zeropp,zero-topo --devices 384 --no-sensitivity"
        " --set engine.overlap=false --set training.grad_accum=2 --set plans.zeropp.hpz_version=0.10.0"
        " --set library.overrides.shares.nic=0.1",
        read=study,
        sentences=(
            "The following settings together give {ratio[zeropp]:.2f} and {ratio[zero-topo]:.2f}, within"
            " {ratio_off[zeropp]:.1f} and {ratio_off[zero-topo]:.1f} % of the published"
            " ratios, with ZeRO-3 at {neox[zero3]:.0f} TFLOPS per GCD",
        ),
    ),
    Quoted(
        page="docs/zero-topo.md",
        command="run scenarios/frontier-20b.toml",
        read=study,
        sentences=(
            "without it ZeRO-topo is {varied[overlap of communication = false][zero-topo]:.2f} × as fast as ZeRO-3."
            " With twice the hop latency it is {varied[ring's hop latency between nodes = 342 µs][zero-topo]:.2f} ×.",
            "(`rccl-no-gdr`), ratios are {varied[way of RCCL between nodes = rccl-no-gdr][zeropp]:.2f} and"
            " {varied[way of RCCL between nodes = rccl-no-gdr][zero-topo]:.2f};",
            "(`rccl-sockets`, assumed), {varied[way of RCCL between nodes = rccl-sockets][zeropp]:.2f} and"
            " {varied[way of RCCL between nodes = rccl-sockets][zero-topo]:.2f}.",
            "(stack `none`) they are {varied[software stack of all plans = none][zeropp]:.2f} and"
            " {varied[software stack of all plans = none][zero-topo]:.2f}.",
        ),
    ),
    Quoted(
        page="docs/zero-topo.md",
        command="run scenarios/frontier-20b.toml --devices 384",
        read=study,
        sentences=(
            "| none | {ratio[zeropp]:.3f} | {ratio[zero-topo]:.3f} |",
            "through the host's memory | {varied[way of RCCL between nodes = rccl-no-gdr][zeropp]:.3f}"
            " | {varied[way of RCCL between nodes = rccl-no-gdr][zero-topo]:.3f} |",
            "| the same, one core a rank | {varied[way of RCCL between nodes = rccl-one-core][zeropp]:.3f}"
            " | {varied[way of RCCL between nodes = rccl-one-core][zero-topo]:.3f} |",
            "part of a node, too | {varied[way of RCCL between nodes = rccl-no-p2p][zeropp]:.3f}"
            " | {varied[way of RCCL between nodes = rccl-no-p2p][zero-topo]:.3f} |",
            "| RCCL over sockets | {varied[way of RCCL between nodes = rccl-sockets][zeropp]:.3f}"
            " | {varied[way of RCCL between nodes = rccl-sockets][zero-topo]:.3f} |",
            "| ZeRO++ by DeepSpeed 0.10.2 to 0.13.1 | {varied[hpZ version = 0.10.2][zeropp]:.3f}"
            " | {varied[hpZ version = 0.10.2][zero-topo]:.3f} |",
            "| fused attention | {varied[attention = fused][zeropp]:.3f}"
            " | {varied[attention = fused][zero-topo]:.3f} |",
            "| the host waits around each layer | {varied[the host waits after each layer = layer][zeropp]:.3f}"
            " | {varied[the host waits after each layer = layer][zero-topo]:.3f} |",
            "| stack `gpt-neox-rocm6` | {varied[software stack of all plans = gpt-neox-rocm6][zeropp]:.3f}"
            " | {varied[software stack of all plans = gpt-neox-rocm6][zero-topo]:.3f} |",
            "| no overlap of communication | {varied[overlap of communication = false][zeropp]:.3f}"
            " | {varied[overlap of communication = false][zero-topo]:.3f} |",
            "| micro-batch 4, as GPT-NeoX's 20B.yml | {varied[micro-batch = 4][zeropp]:.3f}"
            " | {varied[micro-batch = 4][zero-topo]:.3f} |",
            "| 4 accumulation steps | {varied[accumulation steps = 4][zeropp]:.3f}"
            " | {varied[accumulation steps = 4][zero-topo]:.3f} |",
        ),
    ),
    Quoted(
        page="docs/zero-topo.md",
        command="run scenarios/frontier-20b-paper.toml --devices 384",
        read=study,
        sentences=(
            "| none | {} | {} | {ratio[zeropp]:.3f} | {ratio[zero-topo]:.3f} |",
            "through the host's memory | {} | {} | {varied[way of RCCL between nodes = rccl-no-gdr][zeropp]:.3f}"
            " | {varied[way of RCCL between nodes = rccl-no-gdr][zero-topo]:.3f} |",
            "| the same, one core a rank | {} | {} | {varied[way of RCCL between nodes = rccl-one-core][zeropp]:.3f}"
            " | {varied[way of RCCL between nodes = rccl-one-core][zero-topo]:.3f} |",
            "part of a node, too | {} | {} | {varied[way of RCCL between nodes = rccl-no-p2p][zeropp]:.3f}"
            " | {varied[way of RCCL between nodes = rccl-no-p2p][zero-topo]:.3f} |",
            "| no overlap of communication | {} | {} | {varied[overlap of communication = false][zeropp]:.3f}"
            " | {varied[overlap of communication = false][zero-topo]:.3f} |",
            "| micro-batch 4, as GPT-NeoX's 20B.yml | {} | {} | {varied[micro-batch = 4][zeropp]:.3f}"
            " | {varied[micro-batch = 4][zero-topo]:.3f} |",
            "| 4 accumulation steps | {} | {} | {varied[accumulation steps = 4][zeropp]:.3f}"
            " | {varied[accumulation steps = 4][zero-topo]:.3f} |",
            "GPU-direct | (default) | | {varied[way of RCCL between nodes = rccl][zeropp]:.3f}"
            " | {varied[way of RCCL between nodes = rccl][zero-topo]:.3f} |",
            "| ZeRO++ by DeepSpeed 0.13.2 | (default) | | {varied[hpZ version = 0.13.2][zeropp]:.3f}"
            " | {varied[hpZ version = 0.13.2][zero-topo]:.3f} |",
            "| no wait around a layer | (default) | | {varied[the host waits after each layer = never][zeropp]:.3f}"
            " | {varied[the host waits after each layer = never][zero-topo]:.3f} |",
            "| stack `deepspeed` | (default) | | {varied[software stack of all plans = deepspeed][zeropp]:.3f}"
            " | {varied[software stack of all plans = deepspeed][zero-topo]:.3f} |",
            "| attention with scores in memory | (default) | | {varied[attention = plain][zeropp]:.3f}"
            " | {varied[attention = plain][zero-topo]:.3f} |",
            "All together they give {ratio[zeropp]:.3f} (90 % of the samples {ratio_low[zeropp]:.3f} to"
            " {ratio_high[zeropp]:.3f}) and {ratio[zero-topo]:.3f} ({ratio_low[zero-topo]:.3f} to"
            " {ratio_high[zero-topo]:.3f}):",
        ),
    ),
    Quoted(
        page="docs/zero-topo.md",
        command="run scenarios/frontier-20b-paper.toml --devices 384 --no-sensitivity --set library.name=rccl-no-p2p"
        " --set engine.overlap=false --set training.grad_accum=4",
        read=study,
        sentences=("the ratios are {ratio[zeropp]:.2f} and {ratio[zero-topo]:.2f}, too close to call.",),
    ),
    Quoted(
        page="docs/headlines.md",
        command="run scenarios/frontier-20b.toml",
        read=study,
        sentences=(
            "| ZeRO++ : ZeRO-3, 20B, 384 GCDs of Frontier (arXiv 2501.04266) | 1.405 | {ratio[zeropp]:.3f}"
            " | {ratio_low[zeropp]:.3f} to {ratio_high[zeropp]:.3f}"
            " | {ratio_least[zeropp]:.3f} to {ratio_most[zeropp]:.3f} |",
            "| ZeRO-topo : ZeRO-3, the same | 2.398 | {ratio[zero-topo]:.3f}"
            " | {ratio_low[zero-topo]:.3f} to {ratio_high[zero-topo]:.3f}"
            " | {ratio_least[zero-topo]:.3f} to {ratio_most[zero-topo]:.3f} |",
        ),
    ),
    Quoted(
        page="docs/headlines.md",
        command="run scenarios/zeropp-v100.toml",
        read=study,
        sentences=(
            "(microsoft/DeepSpeed, blogs/zeropp) | 2.214 | {ratio[zeropp]:.3f}"
            " | {ratio_low[zeropp]:.3f} to {ratio_high[zeropp]:.3f}"
            " | {ratio_least[zeropp]:.3f} to {ratio_most[zeropp]:.3f} |",
        ),
    ),
    Quoted(
        page="docs/axonn.md",
        command="run scenarios/frontier-1t-3d.toml",
        read=study,
        sentences=(
            "1F1B reaches {neox[1f1b]:.1f} TFLOPS per GCD (90 % of the samples {neox_low[1f1b]:.1f} to"
            " {neox_high[1f1b]:.1f}; nominal {neox_nominal[1f1b]:.1f})",
            "It reaches {neox[sequence-parallel]:.1f}, an HFU of {hfu[sequence-parallel]:.1f} % and an MFU of"
            " {mfu[sequence-parallel]:.1f} %, with {peak_gb[sequence-parallel]:.0f} instead of {peak_gb[1f1b]:.0f} GB"
            " on the fullest stage. GPipe would need {peak_gb[gpipe]:.0f} of 64 GB."
            " That sequence parallelism is {best[lead]:.1f} % faster is too close to call.",
        ),
    ),
    Quoted(
        page="docs/defaults.md",
        command="run scenarios/frontier-20b.toml",
        read=study,
        sentences=(
            "`true`: {varied[ZeRO-topo, lane for second hops = true][zero-topo]:.3f} instead of"
            " {varied[default][zero-topo]:.3f} of ZeRO-3's rate",
        ),
    ),
    Quoted(
        page="docs/best-plan.md",
        command="tune scenarios/frontier-20b.toml --devices 384",
        read=searched,
        sentences=(
            "| 20B, 384 GCDs, batch 384 | {total:,} | {simulated} | AxoNN z 96 × data 4, ZeRO-1, keeping activations"
            " | {best_s:.2f} s, {best_gb:.0f} GB | hsdp {own_s[hsdp]:.2f} s, ZeRO-3 {own_s[zero3]:.2f} s,"
            " ZeRO-topo {own_s[zero-topo]:.2f} s |",
        ),
    ),
    Quoted(
        page="docs/best-plan.md",
        command="tune scenarios/frontier-1t-3d.toml --devices 3072",
        read=searched,
        sentences=(
            "| 1T, 3,072 GCDs, batch 1,536 | {total:,} | {simulated} | Megatron-LM tensor 8 × 16 stages,"
            " sequence-parallel, ZeRO-1, keeping activations | {best_s:.1f} s, {best_gb:.0f} GB | sequence-parallel"
            " with recomputation {own_s[sequence-parallel]:.1f} s, 1F1B {own_s[1f1b]:.1f} s |",
        ),
    ),
    Quoted(
        page="README.md",
        command="compare",
        read=study,
        sentences=(
            "On 384 GCDs, zero3, zeropp, hsdp and zero2 are too close to call; zero3 reaches"
            " {rate[zero3]:.0f} tokens/s per GCD"
            " (90 % interval {best[low]:.0f} to {best[high]:.0f}), {best[lead]:.1f} % more than the next,"
            " zeropp, within the model’s error of such a lead ({best[sure_lead]:.1f} %).",
        ),
    ),
    Quoted(
        page="README.md",
        command='compare --model llama-3-70b --nodes 16 --plans "zero3; hsdp; tp 8 pp 2; tp 8 pp 2 vp 4" --batch 4M',
        read=study,
        sentences=(
            " zero3 dp 128 deepspeed {rate[zero3]:.0f} {best[low]:.0f} to {best[high]:.0f} 207 s {tflops[zero3]:.1f}"
            " {mfu[zero3]:.1f} %",
            " tp 8 pp 2 dp 8 megatron-core {rate[tp8-pp2]:.0f} ",
            " tp 8 pp 2 vp 4 dp 8 megatron-core {rate[tp8-pp2-vp4]:.0f} ",
            "On 128 GCDs, zero3 is the fastest of 4 plans with {rate[zero3]:.0f} tokens/s per GCD (90 % interval"
            " {best[low]:.0f} to {best[high]:.0f}), {best[lead]:.1f} % more than the next, tp8-pp2-vp4 (zero3 is",
        ),
    ),
)
QUOTED = (*OF_CORE, *added("tests.quoted", Quoted))


@cache
def values_of(command: str, read: Read) -> object:
    """What a command gives; each is run once."""
    verb = command.split()[0]
    more = {"run": ("--no-page",), "tune": ("--json",), "compare": (), "export": ()}[verb]
    with TemporaryDirectory() as folder:
        ran = invoke(*shlex.split(command), *more, "--out", f"{folder}/out")
        assert ran.code == 0, ran.err
        return read(Results(folder=Path(folder) / "out", out=ran.out))


def name_of(quoted: Quoted) -> str:
    return f"{Path(quoted.page).name}-{quoted.command.split(' --')[0].replace('/', '-')}"


@pytest.mark.long
@pytest.mark.parametrize("quoted", QUOTED, ids=name_of)
def test_figures_are_what_their_command_gives(
    quoted: Quoted, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    values = values_of(quoted.command, quoted.read)
    assert isinstance(values, dict)
    path = ROOT / quoted.page
    text = again = path.read_text(encoding="utf-8")
    for sentence in quoted.sentences:
        again = said_again(again, sentence, values)
    if request.config.getoption("--golden"):
        path.write_text(again, encoding="utf-8")
        return
    assert again == text, (
        f"{quoted.page}: `simfrontier {quoted.command}` gives other figures; make golden rewrites them"
    )


@pytest.mark.parametrize("quoted", QUOTED, ids=name_of)
def test_a_page_has_the_sentences_and_names_their_command(quoted: Quoted) -> None:
    text = (ROOT / quoted.page).read_text(encoding="utf-8")
    for sentence in quoted.sentences:
        sentence_in(text, sentence)
    said = "make compare" if quoted.command == "compare" else quoted.command
    assert said in text, f"{quoted.page} does not have: {said}"


@pytest.mark.long
def test_the_picture_is_what_is_drawn(request: pytest.FixtureRequest) -> None:
    """That of the README."""
    source = importlib.util.spec_from_file_location("picture", ROOT / "docs" / "picture.py")
    assert source and source.loader
    drawing = importlib.util.module_from_spec(source)
    source.loader.exec_module(drawing)
    if request.config.getoption("--golden"):
        drawing.PICTURE.write_text(drawing.picture(), encoding="utf-8")
        return
    assert drawing.picture() == drawing.PICTURE.read_text(encoding="utf-8"), "make picture draws it anew"
