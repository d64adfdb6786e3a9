"""The best plans of a search as a scenario of their own, which runs as it stands."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simfrontier import __version__
from simfrontier.tune.outcome import TunedPlan, TuningOutcome
from simfrontier.tune.toml_document import comment, toml_document

PLACES = ("best", "second", "third")
OTHER_PLANS = ("at", "sensitivity", "published", "earlier")  # tables that are of the scenario's own plans or sizes


def best_document(found: TuningOutcome, folder: Path) -> dict[str, Any]:
    """The scenario's document with the best simulated plans (`best`, `second`, `third`), at the size and with the batch
    of the search. What it names as files is named as seen from `folder`."""
    here = found.scenario.at(found.devices)
    document = {key: value for key, value in here.document.items() if key not in OTHER_PLANS}
    training = {k: v for k, v in document.get("training", {}).items() if k not in ("micro_batch", "grad_accum")}
    named = {
        "name": f"{found.scenario.name}-best",
        "title": f"{found.scenario.file.title}: the best plans for {found.devices:,} devices",
        "training": {**training, "batch": found.batch},
        "run": {**document["run"], "devices": [found.devices]},
        "plans": {place: dict(plan.candidate.table) for place, plan in _placed(found).items()},
    }
    return _moved({**document, **named}, found, folder)


def best_toml(found: TuningOutcome, folder: Path) -> str:
    """The same as the text of a file in `folder`, with a comment on where it comes from."""
    head = (
        f"The best plans that simfrontier {__version__} has found for {found.scenario.name} on {found.devices:,} "
        f"devices,\nwith {found.batch:,} sequences a step: of {found.total:,} plans, {len(found.simulated):,} were "
        "simulated."
    )
    if found.pins.values:
        head += f" Held: {found.pins}."
    remarks = {f"plans.{place}": _remark(plan) for place, plan in _placed(found).items()}
    return f"{comment(head)}\n\n{toml_document(best_document(found, folder), remarks)}"


def _placed(found: TuningOutcome) -> Mapping[str, TunedPlan]:
    return dict(zip(PLACES, found.simulated, strict=False))


def _remark(plan: TunedPlan) -> str:
    return f"{plan.candidate.name}: {plan.step_s:.6g} s, {plan.peak_bytes / 1e9:.4g} GB"


def _moved(document: dict[str, Any], found: TuningOutcome, folder: Path) -> dict[str, Any]:
    """With the user's own files of machine, library and calibration as seen from another folder."""
    machine, library = dict(document["machine"]), dict(document.get("library", {}))
    machine["name"] = _seen(machine["name"], found, folder)
    inherited = found.scenario.machine.library
    if "name" in library or inherited.endswith(".toml"):
        library["name"] = _seen(library.get("name", inherited), found, folder)
    if "calibration" in library:
        library["calibration"] = _seen(library["calibration"], found, folder)
    return {**document, "machine": machine, **({"library": library} if library else {})}


def _seen(name: str, found: TuningOutcome, folder: Path) -> str:
    """A name as it is, or the path of a user's TOML file: beside the scenario, or else from the working folder."""
    if not name.endswith(".toml"):
        return name
    beside = Path(found.scenario.where).parent / name
    path = beside if beside.is_file() else Path(name)
    return Path(os.path.relpath(path, folder)).as_posix() if path.is_file() else name
