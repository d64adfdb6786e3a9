"""`make exhaustive`: the search held against the simulation of every plan, on spaces small enough for that.

For each case: how many plans there are that fit, how many of them the search simulated, and how much slower its pick is
than the best of all. Also held: no floor is above a simulated time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

from simfrontier.answers.search import TuningOutcome, tune
from simfrontier.answers.search.evaluator import PlanEvaluator, SimulatedPlan
from simfrontier.answers.search.pins import LossyPolicy, pins_of
from simfrontier.answers.search.space import Space
from simfrontier.answers.search.tuning import with_batch
from simfrontier.inputs.scenario import Scenario, scenario_of


@dataclass(frozen=True)
class Case:
    """A model of `layers` layers of width `hidden` on so many devices, a step of `batch` sequences of 512 tokens, and
    memory of `hbm_bytes` per device."""

    name: str
    machine: str
    devices: int
    layers: int
    hidden: int
    heads: int
    batch: int
    hbm_bytes: float
    pins: Mapping[str, Any]
    lossy: bool = False

    def scenario(self) -> Scenario:
        document = {
            "name": "exhaustive",
            "title": self.name,
            "machine": {"name": self.machine, "overrides": {"device.hbm_bytes": self.hbm_bytes}},
            "model": {
                "name": self.name,
                "num_layers": self.layers,
                "hidden": self.hidden,
                "heads": self.heads,
                "vocabulary": 8192,
                "sequence": 512,
                "attention": "fused",
                "precision": "bf16",
            },
            "training": {"batch": self.batch},
            "run": {"devices": [self.devices]},
            "plans": {"zero3": {}},
            "uncertainty": {"samples": 0},
        }
        return scenario_of(document, "exhaustive", laid_out=False)


CASES = (
    Case("frontier, 16 GCDs, 0.9B, memory to spare", "frontier", 16, 4, 4096, 32, 32, 64e9, {"micro_batch": 2}),
    Case("frontier, 32 GCDs, 1.9B, little memory", "frontier", 32, 6, 5120, 40, 32, 8e9, {"micro_batch": 1}),
    Case(
        *("frontier, 64 GCDs, 0.3B, small steps", "frontier", 64, 6, 2048, 16, 64, 16e9),
        {"family": ["zero", "megatron"], "micro_batch": 1},
    ),
    Case("perlmutter, 16 A100, 0.9B, larger batch", "perlmutter", 16, 4, 4096, 32, 64, 40e9, {"micro_batch": 4}),
    Case("perlmutter, 32 A100, 3.2B, little memory", "perlmutter", 32, 4, 8192, 64, 32, 12e9, {"micro_batch": 1}),
    Case(
        *("lumi-g, 24 GCDs, 0.5B, codecs allowed", "lumi-g", 24, 4, 3072, 24, 24, 8e9),
        {"x": 1, "y": 1, "z": 1, "tensor": [1, 2], "pipeline": 1, "micro_batch": 1},
        lossy=True,
    ),
    Case("frontier, 8 GCDs, one node", "frontier", 8, 4, 4096, 32, 16, 16e9, {"micro_batch": [1, 2]}),
)


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What the search did on a case: plans that fit, those simulated, the pick's step over the best of all, and the
    largest ratio of a floor to a simulated step."""

    feasible: int
    simulated: int
    over: float
    tightest: float
    pick: str
    best: str
    estimates: tuple[float, float]
    found: TuningOutcome

    @property
    def allowed(self) -> int:
        """How many may be simulated: 5 % of those that fit, at least 5."""
        return max(5, int(0.05 * self.feasible))


def judge(case: Case) -> Verdict:
    """Search, then simulate every plan of the space."""
    scenario = case.scenario()
    result = tune(scenario, pins=case.pins, lossy=case.lossy)
    prepared = with_batch(scenario, case.devices, case.batch)
    space = Space(prepared, case.devices, case.batch, pins_of(case.pins), LossyPolicy(case.lossy))
    evaluator = PlanEvaluator(prepared, scenario, case.devices)
    fits, names = dict[str, SimulatedPlan](), dict[str, str]()
    for candidate in space.candidates():
        simulated = evaluator.simulate(candidate.table).simulated
        if simulated is None:  # the library cannot run it: its groups lie unevenly on the nodes
            continue
        if simulated.peak_bytes <= case.hbm_bytes:
            fits[candidate.key], names[candidate.key] = simulated, candidate.name
    best, pick = min(fits, key=lambda key: (fits[key].step_s, key)), result.best.candidate.key
    floors = {plan.candidate.key: plan.estimate.floor_s for plan in result.plans}
    floors |= {out.candidate.key: out.floor_s for out in result.passed_over}
    estimated = [plan for plan in result.plans if plan.candidate.key in fits]
    off = [fits[plan.candidate.key].step_s / plan.estimate.step_s - 1 for plan in estimated]
    return Verdict(
        feasible=len(fits),
        simulated=len(result.simulated) + len(result.misfits),
        over=fits[pick].step_s / fits[best].step_s - 1.0,
        tightest=max(floor / fits[key].step_s for key, floor in floors.items() if key in fits),
        pick=names[pick],
        best=names[best],
        estimates=(min(off), max(off)),
        found=result,
    )


def line(case: Case) -> tuple[str, bool]:
    """What is said of a case, and whether the search did as it should."""
    verdict = judge(case)
    good = verdict.over <= 0.02 and verdict.simulated <= verdict.allowed and verdict.tightest <= 1.0
    low, high = verdict.estimates
    message = (
        f"{case.name}: {verdict.feasible} plans fit, {verdict.simulated} simulated (allowed {verdict.allowed}); pick "
        f"{100 * verdict.over:.2f} % over the best; highest floor {100 * verdict.tightest:.1f} % of a step; steps "
        f"{100 * low:+.1f} to {100 * high:+.1f} % against their estimates\n"
        f"  pick {verdict.pick}\n  best {verdict.best}\n"
    )
    return message, good


def main() -> None:
    wanted = sys.argv[1:]
    chosen = [case for case in CASES if not wanted or any(word in case.name for word in wanted)]
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        verdicts = pool.map(line, chosen)
        all_good = True
        for message, good in verdicts:
            all_good &= good
            sys.stdout.write(message + ("" if good else "  MISSED\n"))
            sys.stdout.flush()
    raise SystemExit(0 if all_good else 1)


if __name__ == "__main__":
    main()
