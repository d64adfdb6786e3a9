"""Setup of a study: the machine, the models and the work of a step."""

from __future__ import annotations

from typing import Any

from simfrontier.inputs.scenario import Scenario
from simfrontier.interfaces.report.findings.job_nodes import nodes_of_job
from simfrontier.interfaces.report.view import StudyView


def setup_of(view: StudyView) -> dict[str, Any]:
    """Return the machine, models, batches and settings of a study.

    By number of devices: `models` with `num_parameters`, one (of the largest) where all are alike, and `samples`,
    sequences of a step, empty where plans of one size differ. `micro_batch` and `grad_accum`: by plan, ascending;
    `per_device`: micro-batches are of a device, not of a data-parallel rank; `same_work`: a device has as many samples
    at every size; `fitted_on`: the machines that the library was fitted on, where this is none of them; `nodes`: where
    they lie in the network; `stacks`: what each plan runs by; `batch_by_default`: the batch is not the scenario's own,
    but one that all plans can have.
    """
    scenario, cases = view.scenario, view.cases
    samples = {size: {case.samples for (_, at), case in cases.items() if at == size} for size in view.sizes}
    models = view.shapes if len(set(view.shapes.values())) > 1 else {view.largest: view.shapes[view.largest]}
    of_plan = {plan: [case for (name, _), case in cases.items() if name == plan] for plan in view.plans}
    return {
        "scenario": scenario.name,
        "machine": scenario.machine.name,
        "library": scenario.library.name,
        "fidelity": view.study.fidelity,
        "device_word": view.device,
        "sizes": view.sizes,
        "models": models,
        "num_parameters": {size: shape.num_parameters for size, shape in models.items()},
        "samples": {} if any(len(n) > 1 for n in samples.values()) else {size: min(n) for size, n in samples.items()},
        "micro_batch": {plan: tuple(sorted({case.micro_batch for case in own})) for plan, own in of_plan.items()},
        "grad_accum": {plan: tuple(sorted({case.grad_accum for case in own})) for plan, own in of_plan.items()},
        "per_device": all(case.batch_ranks == case.devices for case in cases.values()),
        "same_work": len({case.samples / case.devices for case in cases.values()}) == 1,
        "recomputes": {plan: cases[plan, view.largest].recomputes for plan in view.plans},
        "checkpointing": {plan: cases[plan, view.largest].checkpointing for plan in view.plans},
        "checkpoint_every": scenario.file.model.checkpoint_every,
        "precision": scenario.precision,
        "optimizer": scenario.file.model.optimizer,
        "fitted_on": fitted_elsewhere(scenario),
        "nodes": nodes_of_job(scenario.machine, view.sizes),
        "stacks": {outcome.plan: str(outcome.row["stack"]) for outcome in view.drawn},
        "batch_by_default": scenario.at(view.largest).shared_batch(view.largest) is not None,
    }


def fitted_elsewhere(scenario: Scenario) -> tuple[str, ...]:
    """The machines that the library was fitted on, where this is none of them. Nothing with a calibration, which is of
    a machine of its own, nor on toys, which cannot be measured."""
    library, machine = scenario.library, scenario.machine.name
    held = machine in library.machines or machine.startswith("toy-") or scenario.file.library.calibration is not None
    return () if held else tuple(library.machines)
