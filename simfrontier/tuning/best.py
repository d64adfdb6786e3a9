"""The best plans of a search as a scenario file that can be run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simfrontier import __version__
from simfrontier.io import comment, toml_document
from simfrontier.scenario import COMPARING
from simfrontier.tuning.outcome import TunedPlan, TuningOutcome

PLACES = ("best", "second", "third")
OTHER_PLANS = ("at", *COMPARING)  # tables that are of the scenario's own plans or sizes


def best_document(outcome: TuningOutcome, folder: Path) -> dict[str, Any]:
    """The scenario's document with the best simulated plans (`best`, `second`, `third`), at the size and with the batch
    of the search. What it names as files is named as seen from `folder`."""
    here = outcome.scenario.at(outcome.devices)
    document = {key: value for key, value in here.document.items() if key not in OTHER_PLANS}
    training = {k: v for k, v in document.get("training", {}).items() if k not in ("micro_batch", "grad_accum")}
    named = {
        "name": f"{outcome.scenario.name}-best",
        "title": f"{outcome.scenario.file.title}: the best plans for {outcome.devices:,} devices",
        "training": {**training, "batch": outcome.batch},
        "run": {**document["run"], "devices": [outcome.devices]},
        "plans": {place: dict(plan.candidate.table) for place, plan in _placed(outcome).items()},
    }
    return _moved({**document, **named}, outcome, folder)


def best_toml(outcome: TuningOutcome, folder: Path) -> str:
    """The same as the text of a file in `folder`, with a comment on where it comes from."""
    head = (
        f"The best plans that simfrontier {__version__} has found for {outcome.scenario.name} on {outcome.devices:,} "
        f"devices,\nwith {outcome.batch:,} sequences a step: of {outcome.total:,} plans, {len(outcome.simulated):,} "
        "were simulated."
    )
    if outcome.pins.values:
        head += f" Held: {outcome.pins}."
    remarks = {f"plans.{place}": _remark(plan) for place, plan in _placed(outcome).items()}
    return f"{comment(head)}\n\n{toml_document(best_document(outcome, folder), remarks)}"


def _placed(outcome: TuningOutcome) -> Mapping[str, TunedPlan]:
    return dict(zip(PLACES, outcome.simulated, strict=False))


def _remark(plan: TunedPlan) -> str:
    return f"{plan.candidate.name}: {plan.step_s:.6g} s, {plan.peak_bytes / 1e9:.4g} GB"


def _moved(document: dict[str, Any], outcome: TuningOutcome, folder: Path) -> dict[str, Any]:
    """With the user's own files as seen from another folder."""
    machine, library = dict(document["machine"]), dict(document.get("library", {}))
    machine["name"] = _seen(machine["name"], outcome, folder)
    inherited = outcome.scenario.machine.library
    if "name" in library or inherited.endswith(".toml"):
        library["name"] = _seen(library.get("name", inherited), outcome, folder)
    if "calibration" in library:
        library["calibration"] = _seen(library["calibration"], outcome, folder)
    moved = {**document, "machine": machine, **({"library": library} if library else {})}
    for path in (("neighbour", "scenario"), ("goodput", "failures"), ("nodes", "topology")):
        _move(moved, path, outcome, folder)
    tables = [dict(each) for each in moved.get("perturbation", {}).get("spread", ())]
    for each in tables:
        _move(each, ("table",), outcome, folder)
    return {**moved, "perturbation": {**moved["perturbation"], "spread": tables}} if tables else moved


def _move(document: dict[str, Any], path: tuple[str, ...], outcome: TuningOutcome, folder: Path) -> None:
    """Change the name at a path, if there is one; tables on it are copied."""
    *tables, last = path
    for table in tables:
        if not isinstance(document.get(table), dict):
            return
        document[table] = dict(document[table])
        document = document[table]
    if isinstance(document.get(last), str):
        document[last] = _seen(document[last], outcome, folder)


def _seen(name: str, outcome: TuningOutcome, folder: Path) -> str:
    """A name as it is, or the path of a user's file: beside the scenario, or else from the working folder."""
    beside = Path(outcome.scenario.where).parent / name
    path = beside if beside.is_file() else Path(name)
    return Path(os.path.relpath(path, folder)).as_posix() if path.is_file() else name
