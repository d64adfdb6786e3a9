"""The section of a study's page on softmaxes: memory and time of each plan's softmaxes, its gain, and the collectives
of its loss."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape as text
from pathlib import Path
from typing import Final

from simfrontier.answers.step import Softmaxes
from simfrontier.core.program import KERNELS, MemoryPasses
from simfrontier.core.workload import Attention
from simfrontier.interfaces.report.render import render
from simfrontier.interfaces.report.results import Section
from simfrontier.interfaces.report.theme import (
    COMPUTE,
    LEVEL_COLOURS,
    SECONDS,
    Figure,
    PlotTrace,
    axis,
    bars,
    figure,
    rows,
)
from simfrontier.interfaces.report.view import StudyView, step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanSoftmaxes:
    """The softmaxes of a plan in a step. `gain`: samples per second relative to the scenario's first plan, minus 1;
    None for the first plan itself."""

    plan: str
    attention: Attention
    step_s: float
    gain: float | None
    spent: Softmaxes


@dataclass(frozen=True, slots=True, kw_only=True)
class LossCollectives:
    """Plans whose loss takes the fewest collectives, the most, and the least time for them. `gathered_bytes`: what
    every device gets by the all-gathers of the fewest."""

    fewest: str
    most: str
    quickest: str
    fewer_are_slower: bool
    gathered_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeSoftmaxes:
    """The plans that fit at a size. `collectives`: where they take different numbers of them."""

    devices: int
    plans: tuple[PlanSoftmaxes, ...]
    collectives: LossCollectives | None

    def of(self, plan: str) -> PlanSoftmaxes | None:
        return next((one for one in self.plans if one.plan == plan), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class StudySoftmaxes:
    """The softmaxes of a study's plans, by size, the smallest first.

    `first_plan`: the one that gains are over. `passes`: of the kernels that any plan takes over whole rows. `methods`:
    by which any forms its loss. `logits_dtype`, `gradient_dtype`: what the loss reads and writes.
    """

    device_word: str
    first_plan: str
    passes: Mapping[str, MemoryPasses]
    methods: tuple[str, ...]
    logits_dtype: str
    gradient_dtype: str
    sizes: tuple[SizeSoftmaxes, ...]


def study_softmaxes(view: StudyView) -> StudySoftmaxes | None:
    """Return the findings, or None if no plan that fits has softmaxes to report."""
    sizes = tuple(each for size in view.sizes if (each := _at(view, size)).plans)
    if not sizes:
        return None
    every = [one.spent for each in sizes for one in each.plans]
    precision = view.scenario.precision
    return StudySoftmaxes(
        device_word=view.device,
        first_plan=view.plans[0],
        passes={kernel: passes for kernel, passes in KERNELS.items() if any(one.kernel == kernel for one in every)},
        methods=tuple(dict.fromkeys(one.method for one in every if one.calls)),
        logits_dtype=precision.wide,
        gradient_dtype=precision.model,
        sizes=sizes,
    )


def _at(view: StudyView, size: int) -> SizeSoftmaxes:
    plans = tuple(
        PlanSoftmaxes(
            plan=o.plan,
            attention=view.cases[o.plan, size].attention,
            step_s=step_s(o),
            gain=None if o.row["speedup"] == "" or o.plan == view.plans[0] else float(o.row["speedup"]) - 1.0,
            spent=o.softmaxes,
        )
        for o in view.at(size)
        if o.softmaxes is not None and o.row["fits"]
    )
    return SizeSoftmaxes(devices=size, plans=plans, collectives=_collectives(plans, size))


def _collectives(plans: tuple[PlanSoftmaxes, ...], size: int) -> LossCollectives | None:
    with_calls = {one.plan: one.spent for one in plans if one.spent.calls}
    number = {plan: sum(call.number for call in one.calls) for plan, one in with_calls.items()}
    if len(set(number.values())) < 2:
        return None
    fewest, most = min(number, key=number.__getitem__), max(number, key=number.__getitem__)
    quickest = min(with_calls, key=lambda plan: with_calls[plan].calls_s)
    gathers = [call for call in with_calls[fewest].calls if call.kind == "all_gather"]
    return LossCollectives(
        fewest=fewest,
        most=most,
        quickest=quickest,
        fewer_are_slower=number[quickest] != number[fewest],
        gathered_bytes=size * sum(call.number * call.rank_bytes for call in gathers),
    )


PARTS: Final[Mapping[str, tuple[str, str]]] = {
    "scores_s": ("softmax of attention", "#3E8E8C"),
    "loss_s": ("kernels of the loss", COMPUTE),
    "calls_s": ("collectives of the loss", LEVEL_COLOURS["intra_node"]),
}


def softmax_bars(plans: Sequence[PlanSoftmaxes]) -> Figure:
    """Plot stacked horizontal bars, the scenario's first plan on top; parts that no plan has are left out."""
    traces: list[PlotTrace] = []
    for part, (name, colour) in PARTS.items():
        values = [getattr(one.spent, part) for one in plans]
        if any(values):
            traces.append(bars(name, [text(one.plan) for one in plans], values, colour, "s"))
    height = 130 + 40 * len(plans)
    y = axis("", **rows([one.plan for one in plans]))
    return figure(traces, axis("time per step", **SECONDS), y, height, barmode="stack")


_TEMPLATES = Path(__file__).parent / "templates"


def found_softmaxes(view: StudyView) -> StudySoftmaxes | None:
    """Return the findings on a study whose plans select softmax kernels, or methods of the loss."""
    return study_softmaxes(view) if view.scenario.names_softmaxes else None


def softmax_section(view: StudyView, found: StudySoftmaxes) -> str:
    """Return the HTML of the section."""
    largest_first = {f"{each.devices:,}": each for each in reversed(found.sizes)}
    return render(
        "section.html.j2",
        _TEMPLATES,
        found=found,
        largest_first=largest_first,
        figures={name: softmax_bars(each.plans) for name, each in largest_first.items()},
        plans=view.plans,
        marks=view.marks,
    )


ADDS = (Section(name="softmax", title="Softmax", after="compression", found=found_softmaxes, html=softmax_section),)
