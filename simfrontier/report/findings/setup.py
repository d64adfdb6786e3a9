"""What a study simulated: the machine, the model and the work of a step, and what is wrong with the machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from simfrontier.report.view import StudyView
from simfrontier.scenario import Scenario
from simfrontier.workload import sizes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A model as a study trains it: its sizes by name, and where they come from. `sequence`: tokens of a sample, 1 of
    models whose samples have no sequence."""

    name: str
    family: str
    num_parameters: int
    sequence: int
    sizes: Mapping[str, int]
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """What was simulated. `models`: by number of devices, one entry (the largest) where all are alike; `samples`:
    sequences of a step by number of devices, empty where plans of one size differ; `micro_batch` and `grad_accum`: by
    plan, ascending; `per_device`: micro-batches are of a device, not of a data-parallel rank; `same_work`: a device has
    as many samples at every size; `fitted_on`: the machines that the library was fitted on, where this is none of
    them."""

    machine: str
    machine_title: str
    device_word: str
    scenario: str
    fidelity: str
    sizes: tuple[int, ...]
    models: Mapping[int, Model]
    samples: Mapping[int, int]
    set_batch: bool
    micro_batch: Mapping[str, tuple[int, ...]]
    grad_accum: Mapping[str, tuple[int, ...]]
    per_device: bool
    same_work: bool
    recomputes: Mapping[str, bool]
    calibration: str
    library: str
    fitted_on: tuple[str, ...]
    slow_devices: Mapping[int, float]
    slow_links: tuple[tuple[int, str, float], ...]


def setup_of(view: StudyView) -> Setup:
    """What a study simulated."""
    scenario, cases = view.scenario, view.cases
    calibration = scenario.file.library.calibration
    samples = {size: {case.samples for (_, at), case in cases.items() if at == size} for size in view.sizes}
    wrong = scenario.file.perturbation
    return Setup(
        machine=scenario.machine.name,
        machine_title=scenario.machine.title,
        device_word=view.device,
        scenario=scenario.name,
        fidelity=view.study.fidelity,
        sizes=view.sizes,
        models=_models(view),
        samples={} if any(len(n) > 1 for n in samples.values()) else {size: min(n) for size, n in samples.items()},
        set_batch=scenario.file.training.batch is not None,
        micro_batch={p: tuple(sorted({c.micro_batch for (n, _), c in cases.items() if n == p})) for p in view.plans},
        grad_accum={p: tuple(sorted({c.grad_accum for (n, _), c in cases.items() if n == p})) for p in view.plans},
        per_device=all(case.batch_ranks == case.devices for case in cases.values()),
        same_work=len({case.samples / case.devices for case in cases.values()}) == 1,
        recomputes=view.recomputing,
        calibration=Path(calibration).name if calibration is not None else "",
        library=scenario.library.name,
        fitted_on=fitted_elsewhere(scenario),
        slow_devices={slow.device: slow.factor for slow in wrong.slow},
        slow_links=tuple((link.node, link.link, link.factor) for link in wrong.links),
    )


def fitted_elsewhere(scenario: Scenario) -> tuple[str, ...]:
    """The machines that the library was fitted on, where this is none of them. Nothing with a calibration, which is of
    a machine of its own, nor on toys, which cannot be measured."""
    library, machine = scenario.library, scenario.machine.name
    held = machine in library.machines or machine.startswith("toy-") or scenario.file.library.calibration is not None
    return () if held else tuple(library.machines)


def _models(view: StudyView) -> dict[int, Model]:
    alike = len(set(view.shapes.values())) == 1
    return {
        size: Model(
            name=shape.name,
            family=type(shape).__name__.removesuffix("Shape").lower(),
            num_parameters=shape.num_parameters,
            sequence=shape.sequence,
            sizes={name: getattr(shape, name) for name in sizes_of(shape)},
            source=shape.source,
        )
        for size, shape in view.shapes.items()
        if size == view.largest or not alike
    }
