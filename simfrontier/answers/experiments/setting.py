"""A setting: a scenario's document with changes of dotted keys, and what of it is simulated."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from simfrontier.inputs.scenario import Scenario, scenario_of, without_comparisons


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Setting:
    """The `document` of a scenario that was read from `where`, with `changes`: dotted key → value.

    `plans`: those whose rows are asked for; () for all that it has then. `devices`: the sizes; () for its own.
    `fidelity`: None for the scenario's own.
    """

    document: Mapping[str, Any]
    where: str
    changes: Mapping[str, Any]
    plans: tuple[str, ...] = ()
    devices: tuple[int, ...] = ()
    fidelity: str | None = None

    @classmethod
    def at(
        cls,
        scenario: Scenario,
        plans: Iterable[str],
        devices: int,
        changes: Mapping[str, Any] | None = None,
        fidelity: str | None = None,
    ) -> Setting:
        """Return plans of a scenario at one size, without the tables that compare them."""
        return cls(
            document=without_comparisons(scenario.document, scenario.plans),
            where=scenario.where,
            changes=changes or {},
            plans=tuple(plans),
            devices=(devices,),
            fidelity=fidelity,
        )

    def scenario(self) -> Scenario:
        """Return the scenario with its changes. Raises InputError for changes that it cannot have."""
        return scenario_of(self.document, self.where, self.changes, devices=self.devices, laid_out=False)
