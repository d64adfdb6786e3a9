"""The scenario files of the core and of all extras, and what makes scenarios of thousands of devices small."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simfrontier.base.extras import added
from tests.invoke import ROOT

SCENARIOS: Final = tuple(
    sorted((*(ROOT / "scenarios").glob("*.toml"), *(ROOT / "simfrontier_extras").glob("*/scenarios/*.toml")))
)
STUDIES: Final = tuple(sorted((ROOT / "scenarios" / "studies").glob("*.toml")))


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    """Settings with which a scenario runs on a few devices; extras have those of theirs in `tests/small.py`."""

    scenario: str
    settings: tuple[str, ...]


_TINY: Final = "model.name=tiny"
_STAGES: Final = ("pipeline=2", "tensor=2")
_OF_CORE: Final = (
    Small(scenario="frontier-20b-trouble", settings=(_TINY,)),
    Small(scenario="whole-machine-20b", settings=(_TINY,)),
    Small(
        scenario="x-moe",
        settings=(
            *(_TINY, "model.residual=sequential", "model.experts=4", "model.experts_per_token=2"),
            *(f"plans.{plan}.{key}" for plan in ("rbd", "all-to-all") for key in ("tensor=2", "expert=4")),
        ),
    ),
    Small(
        scenario="whole-machine-175b",
        settings=(
            _TINY,
            "plans.3d-zero1.pipeline=2",
            "plans.3d-zero1.grad_accum=2",
            "plans.3d-zero1.x=1",
            "plans.3d-zero1.y=2",
            "plans.axonn-4d.z=1",
        ),
    ),
    Small(
        scenario="frontier-1t-3d",
        settings=(
            _TINY,
            *(f"plans.{plan}.{key}" for plan in ("1f1b", "gpipe", "sequence-parallel") for key in _STAGES),
        ),
    ),
)


def small_settings(scenario: str) -> tuple[str, ...]:
    """Settings that make the scenario of that name small; none where it is."""
    return next((one.settings for one in (*_OF_CORE, *added("tests.small", Small)) if one.scenario == scenario), ())
