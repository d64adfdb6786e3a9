"""Findings of a search for plans: the fate of each plan, and the files of the search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from simfrontier.answers.accuracy import ModelKind, model_kind_of, step_factor, sure_lead
from simfrontier.answers.search import Candidate, OwnPlan, SimulatedPlan, TunedPlan, TuningOutcome, rows
from simfrontier.answers.study import inputs, versions
from simfrontier.base.wholefile import MANIFEST
from simfrontier.interfaces.report.headline import too_close

CLOSE = 1e-3  # of a step: plans nearer than that are as fast
KINDS: tuple[str, ...] = (  # of layouts: a colour each
    "whole weights, no grid",
    "weights shared inside a node",
    "weights shared by all",
    "Megatron: tensor",
    "Megatron: stages",
    "Megatron: tensor × stages",
    "AxoNN",
    "AxoNN with stages",
)
Range = tuple[float, float]
BEST = "best.toml"
TUNING_FILES = ("results.csv", BEST, "index.html", MANIFEST)


@dataclass(frozen=True, kw_only=True)
class TuningFindings:
    """A search outcome and the values derived from it."""

    outcome: TuningOutcome

    @property
    def model(self) -> str:
        return self.outcome.scenario.at(self.outcome.devices).shape.name

    @property
    def device_word(self) -> str:
        return self.outcome.scenario.machine.device_word

    @property
    def capacity_bytes(self) -> float:
        return self.outcome.best.candidate.capacity_bytes

    @property
    def counts_tokens(self) -> bool:
        """Return whether rates are in tokens, which is the case if samples of the model are sequences."""
        return self.outcome.scenario.at(self.outcome.devices).sequence != 1

    @property
    def tokens_per_s(self) -> float:
        """Rate of the best plan over all devices in tokens/s; in samples/s for a model without sequences."""
        sequence = self.outcome.scenario.at(self.outcome.devices).sequence
        return self.outcome.batch * sequence / self.outcome.best.step_s

    @property
    def num_samples(self) -> int:
        simulated = self.outcome.best.simulated
        return len(simulated.samples_s) if simulated else 0

    @cached_property
    def lead(self) -> float | None:
        """Return the relative lead of the best plan over the next simulated plan; None if there is none."""
        best, *others = self.outcome.simulated
        return others[0].step_s / best.step_s - 1.0 if others else None

    @cached_property
    def fates(self) -> dict[str, int]:
        """Count the plans of the space by fate: does not fit into memory, cannot be run by the library, cannot be
        faster than the best, only estimated, simulated; the counts sum to the size of the space."""
        it = self.outcome
        counts = {"too_big": it.too_big + len(it.misfits), "faulty": it.faulty, "ruled_out": it.ruled_out}
        left = it.total - sum(counts.values()) - len(it.simulated)
        return counts | {"estimated": left, "simulated": len(it.simulated)}

    @property
    def step_errors(self) -> Range:
        """Return the smallest and the largest relative difference of simulated step times from their estimates (-0.1:
        10 % below)."""
        return _ends(one.nominal_s / plan.estimate.step_s for plan, one in self._both)

    @property
    def peak_errors(self) -> Range:
        """Return the smallest and the largest relative difference of simulated peak memory from its estimates."""
        return _ends(one.peak_bytes / plan.estimate.peak_bytes for plan, one in self._both)

    @property
    def _both(self) -> list[tuple[TunedPlan, SimulatedPlan]]:
        return [(plan, plan.simulated) for plan in self.outcome.simulated if plan.simulated]

    @property
    def num_open(self) -> int:
        """Number of plans that were not simulated although no lower bound rules them out."""
        return sum(plan.estimate.floor_s <= self.outcome.best.nominal_s for plan in self.outcome.estimated)

    @property
    def faster_own(self) -> list[OwnPlan]:
        """Plans of the scenario that are faster than the best plan found."""
        return [own for own in self.outcome.own if own.fits and (self.behind(own) or 0.0) < 0.0]

    @property
    def chance(self) -> float | None:
        """Share of the samples in which the best plan is the fastest of the simulated plans; None without samples."""
        return self.outcome.chances[0]

    @property
    def sure_lead(self) -> float:
        """The relative lead over the next simulated plan from which on the ranking is sure (0.05: 5 % faster)."""
        stacks = {plan.candidate.stack for plan in self.outcome.simulated[:2]}
        return sure_lead(len(stacks) == 1, self._model)

    @property
    def _model(self) -> ModelKind:
        return model_kind_of(self.outcome.scenario.at(self.outcome.devices).shape)

    @property
    def interval_s(self) -> Range:
        """90 % interval of the best plan's step: as far as left-out published runs are off on such devices, and at
        least as far as the samples reach."""
        best = self.outcome.best
        factor = step_factor(self.outcome.scenario.machine.device.peak_flops_per_s, self._model)
        band = best.simulated and best.simulated.band_s
        low, _, high = band or (best.step_s, best.step_s, best.step_s)
        return min(low, best.step_s / factor), max(high, best.step_s * factor)

    @property
    def is_sure(self) -> bool:
        """Return whether the lead of the best plan is large enough to be certain."""
        return self.lead is not None and not too_close(1.0 + self.lead, self.chance, self.sure_lead)

    @property
    def leads(self) -> bool:
        """Return whether the best plan is faster than the next one by more than the margin within which plans count as
        equal."""
        return self.lead is not None and self.lead >= CLOSE

    def behind(self, own: OwnPlan) -> float | None:
        """Return the relative extra time of a plan of the scenario over the best plan (negative: it is faster); 0 if
        they count as equal, None if the plan was not simulated."""
        if own.simulated is None:
            return None
        apart = own.simulated.step_s / self.outcome.best.step_s - 1.0
        return apart if abs(apart) >= CLOSE else 0.0


def kind_of(candidate: Candidate) -> str:
    """Return the kind of a plan's layout, one of `KINDS`."""
    piped = int(candidate.value("pipeline")) > 1
    match candidate.family:
        case "axonn":
            return KINDS[7] if piped else KINDS[6]
        case "megatron":
            return KINDS[4 if int(candidate.value("tensor")) == 1 else 5] if piped else KINDS[3]
    return KINDS[{"none": 0, "all": 2}.get(candidate.states.weight, 1)]


def _ends(ratios: Iterable[float]) -> Range:
    shares = [ratio - 1.0 for ratio in ratios]
    return min(shares), max(shares)


def _asked(outcome: TuningOutcome) -> dict[str, Any]:
    """Return the arguments of a search as a JSON document."""
    return {
        "devices": outcome.devices,
        "batch": outcome.batch,
        "fidelity": outcome.scenario.file.run.fidelity,
        "pins": {name: list(values) for name, values in outcome.pins.values.items()},
        "lossy": outcome.loss.lossy,
        "max_error": outcome.loss.max_error,
    }


def tuning_manifest(outcome: TuningOutcome) -> dict[str, Any]:
    """Return the inputs of a search as digests, its arguments, and the versions of the software, without times and
    absolute paths."""
    scenario = outcome.scenario
    return {
        "scenario": scenario.name,
        "file": Path(scenario.where).name,
        **_asked(outcome),
        "inputs": inputs(scenario),
        "settings": scenario.document,
        "versions": versions(),
        "plans": {"total": outcome.total, "simulated": len(outcome.simulated), "ruled_out": outcome.ruled_out},
    }


def tuning_document(outcome: TuningOutcome, top: int | None) -> dict[str, Any]:
    """Return the outcome as a JSON document: the search space, the counts, the best `top` rows of results.csv (all if
    None), and the scenario's own plans."""
    found = TuningFindings(outcome=outcome)
    plans = [{key: None if cell == "" else cell for key, cell in row.items()} for row in rows(outcome)]
    return {
        "scenario": outcome.scenario.name,
        "title": outcome.scenario.file.title,
        **_asked(outcome),
        "total": outcome.total,
        **found.fates,
        "headroom": outcome.headroom,
        "errors": list(outcome.errors),
        "memory_errors": list(found.peak_errors),
        "tokens_per_s": found.tokens_per_s,
        "lead": found.lead,
        "num_samples": found.num_samples,
        "chances": list(outcome.chances),
        "why": outcome.why,
        "plans": plans[:top],
        "own": [
            {
                "plan": own.name,
                "step_time_s": own.simulated and own.simulated.step_s,
                "peak_memory_bytes": own.simulated and own.simulated.peak_bytes,
                "fits": own.fits,
                "why": own.why,
            }
            for own in outcome.own
        ],
        "faster_own": [own.name for own in found.faster_own],
        "front": [plan.candidate.key for plan in outcome.front()],
    }
