"""What a search has found beside its outcome: what became of all plans, how good estimates were, who is faster."""

from __future__ import annotations

from collections.abc import Iterable

from simfrontier.accuracy import mean_step_error
from simfrontier.records import dataclass
from simfrontier.report.findings.samples import too_close
from simfrontier.tuning import Candidate, OwnPlan, TuningOutcome

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Fates:
    """How many plans of the space do not fit into memory, the library cannot run, cannot be faster than the best, were
    only estimated, and were simulated; they sum to all."""

    too_big: int
    faulty: int
    ruled_out: int
    estimated: int
    simulated: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The least and the most by which what was simulated is above its estimate, as shares (-0.1: 10 % below)."""

    low: float
    high: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningFindings:
    """A search and what follows from it. `lead`: by what share the best is faster than the next simulated plan, None
    where there is none. `tokens_per_s`: of the best, over all devices; samples of a model without a sequence
    (`counts_tokens`). `num_open`: plans that were not simulated and that no floor rules out. `faster_own`: plans of the
    scenario that are faster than the best."""

    outcome: TuningOutcome
    model: str
    device_word: str
    capacity_bytes: float
    counts_tokens: bool
    tokens_per_s: float
    num_samples: int
    lead: float | None
    fates: Fates
    step_errors: Spread
    peak_errors: Spread
    num_open: int
    faster_own: tuple[OwnPlan, ...]

    @property
    def chance(self) -> float | None:
        """The share of the samples in which the best is the fastest of the simulated plans; None without samples."""
        return self.outcome.chances[0]

    @property
    def step_error(self) -> float:
        """The model's own error of a step (0.05: 5 %): a lead below it is too close to call."""
        return mean_step_error()

    @property
    def is_sure(self) -> bool:
        """Whether the best is the fastest by more than is too close to call."""
        return self.lead is not None and not too_close(1.0 + self.lead, self.chance)

    @property
    def leads(self) -> bool:
        """Whether the best is faster than the next by more than what counts as equal."""
        return self.lead is not None and self.lead >= CLOSE

    def behind(self, own: OwnPlan) -> float | None:
        """By what share a plan of the scenario takes longer than the best (negative: shorter); 0 where they are as
        fast, None where it was not simulated."""
        if own.simulated is None:
            return None
        apart = own.simulated.step_s / self.outcome.best.step_s - 1.0
        return apart if abs(apart) >= CLOSE else 0.0


def tuning_findings(outcome: TuningOutcome) -> TuningFindings:
    """What follows from a search."""
    best, *others = outcome.simulated
    here, device = outcome.scenario.at(outcome.devices), outcome.scenario.machine
    both = [(plan.estimate, plan.simulated) for plan in outcome.simulated if plan.simulated]
    too_big = outcome.too_big + len(outcome.misfits)
    known = too_big + outcome.faulty + outcome.ruled_out + len(outcome.simulated)
    return TuningFindings(
        outcome=outcome,
        model=here.shape.name,
        device_word=device.device_word,
        capacity_bytes=best.candidate.capacity_bytes,
        counts_tokens=here.sequence != 1,
        tokens_per_s=outcome.batch * here.sequence / best.step_s,
        num_samples=len(best.simulated.samples_s) if best.simulated else 0,
        lead=others[0].step_s / best.step_s - 1.0 if others else None,
        fates=Fates(
            too_big=too_big,
            faulty=outcome.faulty,
            ruled_out=outcome.ruled_out,
            estimated=outcome.total - known,
            simulated=len(outcome.simulated),
        ),
        step_errors=_spread(one.nominal_s / estimate.step_s for estimate, one in both),
        peak_errors=_spread(one.peak_bytes / estimate.peak_bytes for estimate, one in both),
        num_open=sum(plan.estimate.floor_s <= outcome.best.nominal_s for plan in outcome.estimated),
        faster_own=tuple(own for own in outcome.own if _is_faster(own, outcome)),
    )


def kind_of(candidate: Candidate) -> str:
    """What sort of layout a plan has, one of `KINDS`."""
    piped = int(candidate.value("pipeline")) > 1
    match candidate.family:
        case "axonn":
            return KINDS[7] if piped else KINDS[6]
        case "megatron":
            return KINDS[4 if int(candidate.value("tensor")) == 1 else 5] if piped else KINDS[3]
    return KINDS[{"none": 0, "all": 2}.get(candidate.states.weight, 1)]


def _is_faster(own: OwnPlan, outcome: TuningOutcome) -> bool:
    return own.simulated is not None and own.fits and own.simulated.step_s < (1.0 - CLOSE) * outcome.best.step_s


def _spread(ratios: Iterable[float]) -> Spread:
    shares = [ratio - 1.0 for ratio in ratios]
    return Spread(low=min(shares), high=max(shares))
