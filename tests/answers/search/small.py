"""Small scenarios of a GPT for the tests of the search."""

from __future__ import annotations

from typing import Any

from simfrontier.inputs.scenario import Scenario, scenario_of


def scenario(
    devices: int = 16,
    batch: int = 32,
    *,
    machine: str = "frontier",
    layers: int = 4,
    hidden: int = 1024,
    hbm_bytes: float = 64e9,
    samples: int = 0,
    plans: dict[str, dict[str, Any]] | None = None,
    tune: dict[str, Any] | None = None,
    model: dict[str, Any] | None = None,
) -> Scenario:
    """A GPT of `layers` layers, 16 heads and sequences of 256, on a machine with that much memory per device; `model`:
    more of its keys."""
    document: dict[str, Any] = {
        "name": "small",
        "title": "A small GPT",
        "stack": "none",
        "machine": {"name": machine, "overrides": {"device.hbm_bytes": hbm_bytes}},
        "model": {
            "name": "small",
            "num_layers": layers,
            "hidden": hidden,
            "heads": 16,
            "vocabulary": 2048,
            "sequence": 256,
            "precision": "bf16",
            **(model or {}),
        },
        "training": {"batch": batch},
        "run": {"devices": [devices]},
        "plans": plans or {"zero3": {}},
        "uncertainty": {"samples": samples},
        "tune": tune or {},
    }
    return scenario_of(document, "small.toml", laid_out=False)
