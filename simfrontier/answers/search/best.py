"""The best plans of a search as a scenario file that can be run."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simfrontier.answers.search.outcome import TunedPlan, TuningOutcome
from simfrontier.base.io import comment, toml_document
from simfrontier.base.version import __version__
from simfrontier.inputs.scenario import COMPARING

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
    inherited = outcome.scenario.machine.library
    if inherited.endswith(".toml"):
        document = {**document, "library": {"name": inherited, **document.get("library", {})}}
    beside = Path(outcome.scenario.where).parent

    def seen(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: seen(each) for key, each in value.items()}
        if isinstance(value, list):
            return [seen(each) for each in value]
        return _seen(value, beside, folder) if isinstance(value, str) else value

    return {key: seen(value) for key, value in document.items()}


def _seen(text: str, beside: Path, folder: Path) -> str:
    """A text as it is, or where it names a user's file, beside the scenario or else from the working folder, its path
    from another folder."""
    found = [path for path in (beside / text, Path(text)) if "." in text and os.path.isfile(path)]
    return Path(os.path.relpath(found[0], folder)).as_posix() if found else text
