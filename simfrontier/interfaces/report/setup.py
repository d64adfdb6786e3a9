"""Setup of a study: machine, models, work per step, rank grids, and the numbers that the study assumes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from simfrontier.answers.search import TriedGrid
from simfrontier.base.units import counted
from simfrontier.core.machine import Machine, Provenance, compressed
from simfrontier.core.network import groups_of_job
from simfrontier.core.plan import HopOptions, Options, TensorOptions
from simfrontier.core.workload import GptShape
from simfrontier.inputs.scenario import USUAL_BATCH, Case, Scenario, usual_tokens
from simfrontier.interfaces.report.view import StudyView

KINDS = ("assumed", "fitted", "inferred", "measured", "quoted")  # the least certain first
AXES = {  # axes of a mesh, as they are called
    **{"x": "X", "y": "Y", "z": "Z", "tensor": "tensor", "stage": "stages"},
    **{"context": "context", "context_heads": "context (heads)"},
}
DATA = "data"


def assumptions_of(view: StudyView) -> dict[str, Any]:
    """Return the assumed numbers of a study's machine and library, the settings of the engine, the differing settings
    of plans that have their own engine (by key and plan), and the options of each plan at the largest size, without
    options that are not set."""
    scenario, engine = view.scenario, asdict(view.scenario.file.engine)
    cases = {plan: view.cases[plan, view.largest] for plan in scenario.plans}
    return {
        "numbers": numbers_of(scenario),
        "engine": engine,
        "engine_of_plans": {
            key: {plan: own for plan, case in cases.items() if (own := getattr(case.engine, key)) != value}
            for key, value in engine.items()
        },
        "options": {plan: _plain(case.options.in_precision(scenario.precision.model)) for plan, case in cases.items()},
    }


def numbers_of(scenario: Scenario) -> list[tuple[str, Provenance]]:
    """Return every number of a scenario's machine and library with the part that it belongs to, the least certain
    numbers first."""
    parts = {"machine": scenario.machine.provenance(), "library": scenario.library.provenance()}
    known = [(part, number) for part, numbers in parts.items() for number in numbers]
    return sorted(known, key=lambda entry: [*KINDS, entry[1].kind].index(entry[1].kind))


def _plain(value: Any) -> Any:
    """Return the value of a plan option as plain JSON values, without nested options that are not set."""
    match value:
        case Options() | HopOptions():
            return {key: _plain(given) for key, given in value if given is not None}
        case tuple():
            return [_plain(each) for each in value]
        case bool() | int() | float():
            return value
        case _:
            return str(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesOfJob:
    """Placement of a job's nodes. `in_groups`: by number of devices, the number of nodes in each group (dragonfly) or
    under each leaf switch (fat tree) that has any, in the order of the groups; empty if the machine has no groups.
    `listed`: by number of devices, the nodes by name or number, if the scenario lists them; `seed`: the seed of a
    random placement."""

    placement: str
    group_word: str
    in_groups: Mapping[int, tuple[int, ...]]
    listed: Mapping[int, str]
    seed: int | None

    @property
    def is_usual(self) -> bool:
        """True if the placement needs no mention: the first nodes of the machine, all in one group."""
        return self.placement == "contiguous" and all(len(counts) <= 1 for counts in self.in_groups.values())

    def words(self, devices: int) -> str:
        """Return a description of the placement at one size: `random (seed 1), 48 nodes in 12 groups, 1 to 7 in
        each`."""
        seed = "" if self.seed is None else f" (seed {self.seed})"
        text = f"{self.listed.get(devices, self.placement)}{seed}"
        counts = self.in_groups.get(devices, ())
        if not counts:
            return text
        low, high = min(counts), max(counts)
        groups = counted(len(counts), self.group_word, {"group": "groups", "leaf": "leaves"}[self.group_word])
        text = f"{text}, {counted(sum(counts), 'node')} in {groups}"
        return text if len(counts) == 1 else f"{text}, {low if low == high else f'{low} to {high}'} in each"


def nodes_of_job(machine: Machine, sizes: Sequence[int]) -> NodesOfJob:
    """Return the placement of a job's nodes for each number of devices."""
    job, has_groups = machine.job_nodes, machine.dragonfly is not None or machine.fat_tree is not None
    names = job.names or tuple(map(str, job.listed))
    in_groups, listed = {}, {}
    for size in sizes:
        num_nodes = -(-size // machine.devices_per_node)
        if has_groups:
            counts = Counter(groups_of_job(machine, num_nodes).tolist())
            in_groups[size] = tuple(counts[group] for group in sorted(counts))
        if names:
            listed[size] = compressed(names[:num_nodes])
    return NodesOfJob(
        placement=job.placement,
        group_word="leaf" if machine.fat_tree is not None else "group",
        in_groups=in_groups,
        listed=listed,
        seed=job.seed if job.placement == "random" else None,
    )


def setup_of(view: StudyView) -> dict[str, Any]:
    """Return the machine, models, batches and settings of a study.

    By number of devices: `models` with `num_parameters`, only one entry (for the largest size) if all are alike, and
    `samples`, sequences per step, empty if plans of one size differ. `micro_batch` and `grad_accum`: the values by
    plan, ascending; `per_device`: whether micro-batches are per device instead of per data-parallel rank; `same_work`:
    whether a device has equally many samples at every size; `fitted_on`: the machines on which the library was fitted,
    if this machine is none of them; `nodes`: the placement of nodes in the network; `stacks`: the software stack of
    each plan; `batch_words`: by what the batch was chosen so that all plans can have it; empty if the scenario sets
    its sequences.
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
        "attention": sorted({cases[plan, view.largest].attention for plan in view.plans}),
        "is_gpt": isinstance(view.shapes[view.largest], GptShape),
        "checkpoint_every": scenario.file.model.checkpoint_every,
        "precision": scenario.precision,
        "optimizer": scenario.file.model.optimizer,
        "fitted_on": fitted_elsewhere(scenario),
        "nodes": nodes_of_job(scenario.machine, view.sizes),
        "stacks": {outcome.plan: str(outcome.row["stack"]) for outcome in view.drawn},
        "batch_words": _batch_words(scenario.at(view.largest), view.largest),
    }


def _batch_words(scenario: Scenario, devices: int) -> str:
    batch = scenario.file.training.batch
    if batch == USUAL_BATCH and isinstance(scenario.shape, GptShape):
        return f"usual for its size: up to {usual_tokens(scenario.shape.num_parameters) / 1e6:g}M tokens"
    if scenario.file.training.tokens is not None:
        return str(batch)
    return "" if scenario.shared_batch(devices) is None else "by default"


def fitted_elsewhere(scenario: Scenario) -> tuple[str, ...]:
    """Return the machines on which the library was fitted, if this machine is none of them. Empty with a calibration,
    which is specific to a machine, and on toy machines, which cannot be measured."""
    library, machine = scenario.library, scenario.machine.name
    held = machine in library.machines or machine.startswith("toy-") or scenario.file.library.calibration is not None
    return () if held else tuple(library.machines)


def rank_grids(view: StudyView) -> dict[str, Any] | None:
    """Return the rank grids of all plans at all sizes, and the searches that found them; None if no plan has a grid.
    `axes`: the dimensions that any plan's grid has in addition to data parallelism; pipeline stages only if there is
    more than one."""
    if not view.searches and not any(isinstance(case.options, TensorOptions) for case in view.cases.values()):
        return None
    grids = [_grid(view, plan, case) for (plan, _), case in view.cases.items()]
    most = {name: max(grid["ranks"].get(name, 0) for grid in grids) for name in AXES.values()}
    return {
        "axes": [name for name in AXES.values() if most[name] > (name == AXES["stage"])],
        "grids": grids,
        "searches": [_search(view, plan, size, tried) for (plan, size), tried in view.searches.items()],
    }


def ranks_along(case: Case) -> dict[str, int]:
    """Return the number of ranks along each dimension of a case's grid, by name; all ranks that are not model-parallel
    are data-parallel."""
    mesh, options = dict(case.mesh.axes), case.options
    own = {axis for axis, _ in options.inside} | {"stage"} if isinstance(options, TensorOptions) else set()
    counts = {name: mesh.get(axis, 1) for axis, name in AXES.items() if axis in own}
    return counts | {DATA: _left(case.devices, counts.values())}


def _grid(view: StudyView, plan: str, case: Case) -> dict[str, Any]:
    """Return the grid of one plan at one size. `ranks`: number of ranks along each dimension of the grid; `samples`:
    sequences per step; `num_candidates`: number of candidates of the search that found the grid, None without a
    search."""
    tried = view.searches.get((plan, case.devices))
    return {
        "plan": plan,
        "devices": case.devices,
        "model": case.shape.name,
        "ranks": ranks_along(case),
        "chunks": case.chunks,
        "micro_batch": case.micro_batch,
        "grad_accum": case.grad_accum,
        "samples": case.samples,
        "is_searched": tried is not None or plan in view.scenario.at(case.devices).searches,
        "num_candidates": None if tried is None else len(tried),
    }


def _search(view: StudyView, plan: str, size: int, tried: Sequence[TriedGrid]) -> dict[str, Any]:
    """Return a search: the chosen grid, and all tried grids by the options in which they differ, the best first and
    those without a rate last, with their rate in sequences per second at fidelity `analytic`, or the reason for a
    missing rate. `by`: the model of communication that proposed the grids, or empty if every combination was tried."""
    tables = [_table(one.options) for one in tried]
    differing = [key for key in tables[0] if any(table[key] != tables[0][key] for table in tables)]
    best_first = sorted(tried, key=lambda one: -one.rate if one.rate is not None else 1.0)
    return {
        "plan": plan,
        "devices": size,
        "by": view.scenario.at(size).searches[plan].by or "",
        "takes_first": getattr(view.scenario.at(size).searches[plan].order, "takes_first", False),
        "taken": _columns(view.scenario.resolved_options[plan, size], size, differing),
        "candidates": [
            {"options": _columns(one.options, size, differing), "samples_per_s": one.rate, "misfit": one.why}
            for one in best_first
        ],
    }


def _table(options: Options) -> Mapping[str, object]:
    return {key: value.family if isinstance(value, Options) else value for key, value in options}


def _columns(options: Options, size: int, differing: Sequence[str]) -> dict[str, str | int | None]:
    """Return the grid of a candidate on `size` devices by dimension (data is None if the other dimensions do not divide
    the devices), then all other options in which the candidates differ."""
    made: dict[str, str | int | None] = {}
    if isinstance(options, TensorOptions):
        counts = {AXES[axis]: count for axis, count in reversed(options.inside)} | {AXES["stage"]: options.pipeline}
        left = _left(size, counts.values())
        if options.pipeline == 1 and "pipeline" not in differing:
            del counts[AXES["stage"]]
        made = {**counts, DATA: left or None}
    known = _table(options)
    for key in differing:
        if key not in (*AXES, "pipeline"):
            value = known[key]
            made["plan on data" if key == DATA else key.replace("_", "-")] = value if type(value) is int else str(value)
    return made


def _left(devices: int, counts: Iterable[int]) -> int:
    """Return the number of data-parallel replicas of a grid, 0 if the grid does not divide the devices."""
    for count in counts:
        devices = devices // count if devices % count == 0 else 0
    return devices
