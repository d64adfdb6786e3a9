"""Errors of published runs that the documentation quotes are those of the left-out runs. `pytest --golden` rewrites
those that are not; a machine of the table in docs/accuracy.md is a line of the lists below."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean
from typing import Any, Final

import pytest

from simfrontier.answers.accuracy import Errors, JobFacts, RunsValidation, errors_by
from tests.accuracy import error
from tests.answers.accuracy.published_runs.rows import written
from tests.documented import said_again
from tests.invoke import ROOT

DENSE: Final = {
    "nodes of H100": "h100-node",
    "Jean Zay, A100: BLOOM's pre-runs": "jean-zay-a100",
    "nodes of A100 40 GB": "a100-40gb-node",
    "nodes of B200": "b200-node",
    "nodes of A100 80 GB": "a100-node",
    "Aurora, Max 1550": "aurora",
    "GB300 NVL72": "gb300-nvl72",
    "LUMI-G, MI250X": "lumi-g",
    "nodes of MI325X": "mi325x-node",
    "DGX-2, V100: ZeRO-3 and ZeRO++": "dgx-2",
    "nodes of MI300X, six with a number of layers that was inferred": "mi300x-node",
    "nodes of H200": "h200-node",
    "Grand Teton, H100": "grand-teton",
    "GB200 NVL72": "gb200-nvl72",
    "nodes of MI355X": "mi355x-node",
    "Selene, A100": "selene",
    "Eos, H100": "eos",
    "Frontier, MI250X: FORGE": "frontier",
    "nodes of B200 with a limit of power that the source does not tell (pytorch/ao)": "b200-750w-node",
    "nodes of B300": "b300-node",
    "Alps, GH200": "alps",
    "JUPITER, GH200": "jupiter",
}
EXPERTS: Final = {
    "nodes of H100": "h100-node",
    "nodes of B300": "b300-node",
    "JUPITER, GH200": "jupiter",
    "GB200 NVL72": "gb200-nvl72",
    "nodes of H800: xtuner's ablations": "h800-node",
    "nodes of B200": "b200-node",
    "GB300 NVL72": "gb300-nvl72",
}
SENTENCES: Final = {
    "docs/accuracy.md": (
        "All {all.count:,} runs: {all.mean:.1f} % mean and {all.median:.1f} % median.",
        "Of the time of a step, mixtures of experts are {of_step:.1f} % off",
        "products in 8 and 4 bits, dense, {narrow dense.count} runs, {narrow dense.mean:.1f} %; a divided sequence,"
        " {divided dense.count} dense runs, {divided dense.mean:.1f} %, with experts {divided experts.count} runs,"
        " {divided experts.mean:.1f} %; adapters (LoRA), {adapters dense.count} runs, {adapters dense.mean:.1f} %.",
        "Memory is {memory.mean:.1f} % off on average where a run states it, and within 10 % in {memory.covered:.0f} %",
        "**Rankings.** {pairs:,} pairs of these runs differ in nothing but plan and micro-batch (BLOOM's topologies"
        " most of all). {right:.0f} % are ranked right.",
        "{sure:,} are sure, of which {sure_right:,} ({sure_share:.0f} %) are right, and {close:.0f} % are too close to"
        " call.",
    ),
    "docs/comparison.md": (
        "[{all.count:,} training runs, left out](accuracy.md#whole-training-runs): {all.mean:.1f} % mean,"
        " {all.median:.1f} % median;",
    ),
    "README.md": (
        "{dense.mean:.1f} % mean and {dense.median:.1f} % median error over {dense.count:,} published runs of dense"
        " models",
        "{dense.covered:.0f} % lie inside their 90 % interval. Mixtures of experts: {experts.mean:.0f} % and"
        " {experts.median:.0f} % over {experts.count:,} runs.",
    ),
}


KINDS: Final[dict[str, Callable[[JobFacts], bool]]] = {
    "narrow": lambda job: job.precision.endswith(("fp8", "fp4")),
    "divided": lambda job: job.context > 1,
    "adapters": lambda job: job.lora_rank > 0,
}


class Figures:
    """Errors in percent, as the sentences name them."""

    def __init__(self, errors: Errors) -> None:
        self.count, self.mean, self.median = errors.count, 100 * errors.mean_abs, 100 * errors.median_abs
        self.covered = 100 * (errors.covered or 0.0)


def values_of(done: RunsValidation) -> dict[str, Any]:
    ranked = done.rankings
    assert done.overall and done.memory and ranked and ranked.sure_right_share
    return {
        "all": Figures(done.overall),
        "memory": Figures(done.memory),
        **{model: Figures(errors) for model, errors in done.by("model").items()},
        **{f"{kind} {model}": figures for kind, known in KINDS.items() for model, figures in of_kind(done, known)},
        "of_step": 100 * fmean(error(row.left_out) for row in done.predicted if row.facets["model"] == "experts"),
        **{name: getattr(ranked, name) for name in ("pairs", "sure", "sure_right")},
        "right": 100 * ranked.right_share,
        "sure_share": 100 * ranked.sure_right_share,
        "close": 100 * ranked.too_close_share,
    }


def of_kind(done: RunsValidation, known: Callable[[JobFacts], bool]) -> list[tuple[str, Figures]]:
    """Errors of the runs of a kind, by kind of model."""
    rows = [row for row in done.predicted if known(row.left_out.facts)]
    return [(model, Figures(each)) for model, each in errors_by(rows, lambda row: row.facets["model"]).items()]


def table_again(text: str, done: RunsValidation) -> str:
    """The text of a page with the table of errors by kind of model and machine as these are."""
    for model, heading, machines in (("dense", "dense models", DENSE), ("experts", "mixtures of experts", EXPERTS)):
        start = text.index(f"| **{heading}** |")
        end = text.index("| **mixtures" if model == "dense" else "\n\n", start + 1)
        rows = [row for row in done.predicted if row.facets["model"] == model]
        known = {name: Figures(each) for name, each in errors_by(rows, lambda row: row.facets["machine"]).items()}
        known["whole"] = Figures(done.by("model")[model])
        part = said_again(text[start:end], line(f"**{heading}**", "whole", "**{whole.mean:.1f} %**"), known)
        for label, machine in machines.items():
            part = said_again(part, line(label, machine, f"{{{machine}.mean:.1f}} %"), known)
        text = text[:start] + part + text[end:]
    return text


def line(label: str, name: str, mean: str) -> str:
    return f"| {label} | {{{name}.count}} | {mean} | {{{name}.median:.1f}} % | {{{name}.covered:.0f}} % |"


@pytest.mark.parametrize("page", SENTENCES)
def test_errors_are_those_of_the_left_out_runs(page: str, request: pytest.FixtureRequest) -> None:
    path, done = ROOT / page, written()
    text = again = path.read_text(encoding="utf-8")
    for sentence in SENTENCES[page]:
        again = said_again(again, sentence, values_of(done))
    if page == "docs/accuracy.md":
        again = table_again(again, done)
    if request.config.getoption("--golden"):
        path.write_text(again, encoding="utf-8")
        return
    assert again == text, f"{page}: other errors than those of left_out.csv; `pytest --golden {__file__}` rewrites them"
