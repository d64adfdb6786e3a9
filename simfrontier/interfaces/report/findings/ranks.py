"""Layout of the ranks of a study's plans, and the candidates of searches for a grid."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from simfrontier.core.plan import Options, TensorOptions
from simfrontier.inputs.scenario import Case
from simfrontier.interfaces.report.view import StudyView

if TYPE_CHECKING:
    from simfrontier.answers.search import TriedGrid

AXES = {"x": "X", "y": "Y", "z": "Z", "tensor": "tensor", "stage": "stages"}  # axes of a mesh, as they are called
DATA = "data"


def rank_grids(view: StudyView) -> dict[str, Any] | None:
    """The grids of all plans at all sizes, and the searches that found them; None where no plan has a grid. `axes`:
    parts of the grid that any plan has beside data; stages only where there is more than one."""
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
    """Ranks along each part that a case's grid has, by its name; all that is not model-parallel is data."""
    mesh, options = dict(case.mesh.axes), case.options
    own = {axis for axis, _ in options.inside} | {"stage"} if isinstance(options, TensorOptions) else set()
    counts = {name: mesh.get(axis, 1) for axis, name in AXES.items() if axis in own}
    return counts | {DATA: _left(case.devices, counts.values())}


def _grid(view: StudyView, plan: str, case: Case) -> dict[str, Any]:
    """One plan at one size. `ranks`: along each part of its grid; `samples`: sequences of a step; `num_candidates`: of
    the search that found it, None where none was run here."""
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
    """A search: the grid that it took, and all that it tried, the best first and those without a rate last, by what
    they differ in: sequences per second at fidelity `analytic`, or why there is no rate. `by`: the model of
    communication that proposed them, or empty where every combination was tried."""
    tables = [_table(one.options) for one in tried]
    differing = [key for key in tables[0] if any(table[key] != tables[0][key] for table in tables)]
    best_first = sorted(tried, key=lambda one: -one.rate if one.rate is not None else 1.0)
    return {
        "plan": plan,
        "devices": size,
        "by": view.scenario.at(size).searches[plan].by or "",
        "taken": _columns(view.scenario.resolved_options[plan, size], size, differing),
        "candidates": [
            {"options": _columns(one.options, size, differing), "samples_per_s": one.rate, "misfit": one.why}
            for one in best_first
        ],
    }


def _table(options: Options) -> Mapping[str, object]:
    return {key: value.family if isinstance(value, Options) else value for key, value in options}


def _columns(options: Options, size: int, differing: Sequence[str]) -> dict[str, str | int | None]:
    """The grid of a candidate on so many devices by the names of its parts (no data where it does not divide them),
    then all else in which candidates differ."""
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
    """Replicas of a grid, 0 where it does not divide the devices."""
    for count in counts:
        devices = devices // count if devices % count == 0 else 0
    return devices
