"""A training job as groups of settings, and jobs between two: some groups of one, the others of the other."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from simfrontier.answers.accuracy import PLAN, Job, JobFacts, JobStep, ModelKind, Rate, Run, facts_of, model_kind_of
from simfrontier.base.errors import InputError, SimfrontierError
from simfrontier.core.machine.stack import NONE
from simfrontier.core.plan import MOST_MICRO_BATCHES, Options, table_of
from simfrontier.core.workload import GptShape
from simfrontier.inputs.scenario import Case, Scenario, mesh_of, scenario_of

SEQUENCE: Final = ("sequence",)
ROUTING: Final = ("expert_skew", "capacity")
PRECISION: Final = ("precision", "gradients", "master", "moments", "optimizer", "linear_precision", "narrow_products")
RECOMPUTED: Final = ("checkpointing", "checkpoint_every")
OF_STACK: Final = ("attention", "softmax")  # keys of `model` that say which kernels run
OF_STEP: Final = (
    "micro_batch",
    "grad_accum",
    *RECOMPUTED,
    *OF_STACK,
)  # keys of a plan's table that are of other groups
NOT_OF_SHAPE: Final = ("name", "source", *SEQUENCE, *ROUTING)

Group: TypeAlias = str
Settings: TypeAlias = Mapping[str, Any]
GROUPS: Final = {  # in the order in which they change, and where their settings stand in a scenario's document
    "machine": "machine and network",
    "devices": "scale",
    "model": "model",
    "sequence": "sequence",
    "batch": "batch and micro-batch",
    "routing": "balance of experts",
    "precision": "precision",
    "recomputation": "recomputation",
    "stack": "software stack",
    "plan": "plan",
}


@dataclass(frozen=True, kw_only=True)
class JobGroups:
    """The settings of a job by group (`groups`: see `GROUPS`), its facts, and its predicted step in seconds, that of
    `JobStep`, as of all published runs. `where`: where its scenario was read.

    Batches are kept as tokens per device and step, so that a job between two fits other numbers of devices, and other
    plans.
    """

    where: str
    groups: Mapping[Group, Settings]
    facts: JobFacts
    step_s: float
    machine: str
    stack: str
    peak_flops_per_s: float
    model: ModelKind

    def with_groups(self, of: JobGroups, names: Collection[Group]) -> JobGroups | None:
        """Return the job with some groups of another job; None if no such job can be laid out."""
        groups = {name: (of if name in names else self).groups[name] for name in GROUPS}
        try:
            return _laid_out(groups, self.where)
        except SimfrontierError:
            return None


def job_groups(job: Job) -> JobGroups:
    """Return the settings of a published run. Raises InputError."""
    return _of_step(JobStep(job))


def own_job_groups(scenario: Scenario, plan: str, devices: int) -> JobGroups:
    """Return the settings of a plan of a scenario at a size; the plan leaves no option to a search. Raises
    InputError."""
    here = scenario.at(devices)
    case = here.case(plan, devices)
    if not isinstance(case.shape, GptShape):
        raise InputError(f"{scenario.where}: model {case.shape.name} is no GPT, as published runs are")
    return _laid_out(_groups_of(here, plan, case), scenario.where)


def _of_step(step: JobStep) -> JobGroups:
    scenario, job = step.job.scenario, step.job
    return JobGroups(
        where=scenario.where,
        groups=_groups_of(scenario, PLAN, step.case),
        facts=facts_of(scenario, step.case, job.steps),
        step_s=step.estimate.step_s,
        machine=scenario.file.machine.name,
        stack=str(scenario.file.stack),
        peak_flops_per_s=scenario.machine.device.peak_flops_per_s,
        model=model_kind_of(step.case.shape),
    )


def _groups_of(scenario: Scenario, plan: str, case: Case) -> dict[Group, Settings]:
    """Return the settings of a case by group, those of the shape key by key."""
    document, shape, file = scenario.document, case.shape, scenario.file
    assert isinstance(shape, GptShape)
    model = {key: value for key, value in document["model"].items() if key not in {e.name for e in fields(GptShape)}}
    sizes = {each.name: getattr(shape, each.name) for each in fields(GptShape) if each.name not in NOT_OF_SHAPE}
    table = document["plans"][plan]
    table = dict(table) if isinstance(table, Mapping) else table_of(scenario.plans[plan])
    stack = scenario.stack_of(case.options.family)
    return {
        "machine": {key: document[key] for key in ("machine", "library", "mesh") if document.get(key)},
        "devices": {"devices": case.devices},
        "model": {key: value for key, value in sizes.items() if value is not None},
        "sequence": {"sequence": shape.sequence},
        "batch": {"tokens": case.samples * shape.sequence / case.devices, "micro_batch": case.micro_batch},
        "routing": {key: value for key in ROUTING if (value := getattr(shape, key)) is not None},
        "precision": {key: getattr(file.model, key) for key in PRECISION if key in model or key == "precision"},
        "recomputation": {"checkpointing": case.checkpointing}
        | ({"checkpoint_every": case.checkpoint_every} if case.checkpoint_every > 1 else {}),
        "stack": {
            "stack": file.stack or (NONE if stack is None else stack.name),
            "engine": document.get("engine", {}),
            "model": {key: getattr(case, key) for key in OF_STACK},
        },
        "plan": {"family": case.options.family, **{key: value for key, value in table.items() if key not in OF_STEP}},
    }


def _document(groups: Mapping[Group, Settings]) -> dict[str, Any]:
    """Return the scenario's document of groups of settings, without its batch."""
    model = {"name": PLAN}
    for name in ("model", "sequence", "routing", "precision", "recomputation"):
        model |= groups[name]
    return {
        "name": PLAN,
        "title": PLAN,
        **groups["machine"],
        "stack": groups["stack"]["stack"],
        "engine": groups["stack"]["engine"],
        "model": model | groups["stack"]["model"],
        "training": {"micro_batch": groups["batch"]["micro_batch"]},
        "run": {"devices": [groups["devices"]["devices"]]},
        "plans": {PLAN: groups["plan"]},
    }


def _laid_out(groups: Mapping[Group, Settings], where: str) -> JobGroups:
    """Return the job of groups of settings, with as many micro-batches as come nearest to its tokens of a step. Raises
    InputError."""
    document, devices, batch = _document(groups), groups["devices"]["devices"], groups["batch"]
    bare = scenario_of(document, where, laid_out=False)
    options = bare.plans[PLAN]
    ranks = options.batch_ranks(mesh_of(options, devices, bare.file.mesh, bare.machine))
    per_micro_batch = ranks * batch["micro_batch"]
    sequences = batch["tokens"] * devices / groups["sequence"]["sequence"]
    document["training"]["batch"] = per_micro_batch * _micro_batches(options, sequences / per_micro_batch)
    scenario = scenario_of(document, where, laid_out=False)
    rate = Rate(measure="step_s")
    job = Job(run=_NO_RUN, scenario=scenario, document=document, rate=rate, unknown=())
    return _of_step(JobStep(job))


_NO_RUN: Final = Run(number=0, where="", value=1.0, cells={})


def _micro_batches(options: Options, wanted: float) -> int:
    """Return the number of micro-batches nearest to the wanted one that an order of stages can run."""
    stages = getattr(options, "pipeline", 1)
    multiple = stages if getattr(options, "order", "") == "interleaved" else 1
    most = max(1, MOST_MICRO_BATCHES // stages) * stages
    return min(max(1, round(wanted / multiple)) * multiple, most)
