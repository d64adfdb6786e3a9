"""Models, micro-batches and the work of a step in words, by plan and by size where they differ."""

from __future__ import annotations

from collections.abc import Iterable

from simfrontier.report.phrases import in_words, listed
from simfrontier.report.view import StudyView
from simfrontier.scenario import Case


def models(view: StudyView) -> str:
    """The model with its parameters: `gpt-80b with 79.7 billion parameters`; of each size where they differ."""
    if len(set(view.shapes.values())) == 1:
        shape = view.shapes[view.largest]
        return f"{shape.name} with {in_words(shape.num_parameters)} parameters"
    several = [f"{s.name} ({in_words(s.num_parameters)} parameters) on {n:,}" for n, s in view.shapes.items()]
    return f"{listed(several)} {view.devices}"


def training(view: StudyView) -> str:
    """Micro-batch and accumulation: once where all plans have the same, otherwise by plan."""
    cases = list(view.cases.values())
    per = view.device if all(case.batch_ranks == case.devices for case in cases) else "data-parallel rank"
    if len({(case.micro_batch, case.grad_accum) for case in cases}) == 1:
        return f"micro-batch {cases[0].micro_batch} per {per}, accumulation {cases[0].grad_accum}"
    text = "; ".join(f"{plan} {_of_plan(view, plan)}" for plan in view.plans)
    return f"micro-batch per {per} × micro-batches of a step: {text}"


def checkpointing(view: StudyView) -> str:
    """Whether activations are recomputed: `full`, or by plan where that differs."""
    by_plan = {plan: "full" if recomputes else "none" for plan, recomputes in view.recomputing.items()}
    if len(set(by_plan.values())) == 1:
        return by_plan[view.plans[0]]
    return "; ".join(f"{plan} {how}" for plan, how in by_plan.items())


def _of_plan(view: StudyView, plan: str) -> str:
    cases = [case for (name, _), case in view.cases.items() if name == plan]
    return f"{_range(case.micro_batch for case in cases)} × {_range(case.grad_accum for case in cases)}"


def _range(counts: Iterable[int]) -> str:
    known = sorted(set(counts))
    return f"{known[0]}" if len(known) == 1 else f"{known[0]} to {known[-1]}"


def batch(view: StudyView) -> str:
    """The sequences of a step over all devices where plans have them in common: `steps of 2,048 sequences`; of each
    size where they differ; empty where plans of a size differ."""
    samples = {size: {case.samples for case in _at(view, size)} for size in view.sizes}
    if any(len(counts) > 1 for counts in samples.values()):
        return ""
    known = {size: counts.pop() for size, counts in samples.items()}
    if len(set(known.values())) == 1:
        return f"steps of {known[view.largest]:,} {_unit(view)}"
    return f"steps of {listed([f'{count:,}' for count in known.values()])} {_unit(view)}"


def work(view: StudyView) -> str:
    """What of the work of a step is the same at every size."""
    if len(view.sizes) == 1:
        return ""
    each = {case.samples / case.devices for case in view.cases.values()}
    one_model = len(set(view.shapes.values())) == 1
    if one_model and len(each) == 1:
        return f"The same work per {view.device} at every size."
    steps = batch(view)
    if one_model:
        return f"{steps[0].upper()}{steps[1:]} at every size." if steps else ""
    return f"The model grows with the machine: {models(view)}{f'; {steps}' if steps else ''}."


def _at(view: StudyView, size: int) -> list[Case]:
    return [case for (_, number), case in view.cases.items() if number == size]


def _unit(view: StudyView) -> str:
    return "samples" if view.shapes[view.largest].sequence == 1 else "sequences"
