"""The outcome of a search as rows: every plan of the space, what is known of it, and how it is known."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from simfrontier.tuning.evaluator import PARTS
from simfrontier.tuning.pins import DIMENSIONS

if TYPE_CHECKING:
    from simfrontier.tuning.outcome import TunedPlan, TuningOutcome
    from simfrontier.tuning.space import Candidate

Cell = str | int | float | bool
COLUMNS = (
    "rank",
    "plan",
    "known",
    "step_time_s",
    "step_time_p05_s",
    "step_time_p50_s",
    "step_time_p95_s",
    "step_time_nominal_s",
    "chance_fastest",
    "tokens_per_s",
    "peak_memory_bytes",
    "estimate_s",
    "floor_s",
    *(f"{part}_s" for part in PARTS),
    *DIMENSIONS,
    "stack",
    "data",
    "grad_accum",
    "table",
)


def rows(tuning: TuningOutcome) -> list[dict[str, Cell]]:
    """A row per plan that divides devices, model and batch, but for those that do not fit: `known` is `simulated`,
    `estimated` or `ruled out`; times in seconds, empty where they are not known. `table` is the plan's table."""
    return list(_rows(tuning))


def _rows(tuning: TuningOutcome) -> Iterator[dict[str, Cell]]:
    chances = {plan.candidate.key: chance for plan, chance in zip(tuning.simulated, tuning.chances, strict=True)}
    tokens = tuning.batch * tuning.scenario.at(tuning.devices).sequence
    for place, plan in enumerate(tuning.plans, start=1):
        yield _filled(
            plan.candidate,
            {
                "rank": place,
                "known": "estimated" if plan.simulated is None else "simulated",
                "step_time_s": plan.step_s,
                "step_time_nominal_s": plan.nominal_s,
                "tokens_per_s": tokens / plan.step_s,
                "peak_memory_bytes": round(plan.peak_bytes),
                "estimate_s": plan.estimate.step_s,
                "floor_s": plan.estimate.floor_s,
                **_of_simulation(plan, chances.get(plan.candidate.key)),
            },
        )
    for out in sorted(tuning.passed_over, key=lambda out: (out.floor_s, out.candidate.key)):
        yield _filled(out.candidate, {"known": "ruled out", "floor_s": out.floor_s})


def _of_simulation(plan: TunedPlan, chance: float | None) -> dict[str, Cell]:
    simulated = plan.simulated
    if simulated is None:
        return {}
    band = dict(zip(("p05", "p50", "p95"), simulated.band_s or (), strict=False))
    return {
        **{f"step_time_{name}_s": value for name, value in band.items()},
        **({} if chance is None else {"chance_fastest": chance}),
        **{f"{part}_s": simulated.parts[part] for part in PARTS},
    }


def _filled(candidate: Candidate, known: dict[str, Cell]) -> dict[str, Cell]:
    row: dict[str, Cell] = dict.fromkeys(COLUMNS, "")
    row.update(known)
    row.update({name: candidate.value(name) for name in DIMENSIONS})
    row["plan"] = candidate.name
    row["stack"] = candidate.stack
    row["data"] = candidate.case.batch_ranks
    row["grad_accum"] = candidate.case.grad_accum
    row["table"] = candidate.key
    return row
