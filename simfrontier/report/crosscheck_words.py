"""What a cross-check comes to, in sentences that the console and the page share."""

from __future__ import annotations

from simfrontier.report.words import listed, number, percent, quantity
from simfrontier.trace.compare import Comparison
from simfrontier.trace.deltas import CrossCheck, StepTimes, Verdict, step_times

MAX_LISTED = 8  # differences of a plan that are said


def lead_sentence(check: CrossCheck) -> str:
    """Whether they agree, in one sentence."""
    verdict = check.verdict
    if verdict.agree:
        return "Simulation and reality agree."
    if not verdict.is_exact:
        return "Simulation and reality did not run the same operations."
    faults = []
    if not verdict.is_near:
        faults.append("the time of collectives" if verdict.judged else "no collective being large enough to judge by")
    if verdict.ranking == "differ":
        faults.append("the order of the plans")
    return f"Simulation and reality do not agree: {listed(faults)}."


def findings(check: CrossCheck) -> list[str]:
    """The three things that the verdict rests on, and what could not be compared."""
    said = [same_operations(check), collective_times(check.verdict)]
    if check.verdict.ranking != "one plan":
        said.append(ranking(check))
    for which, plans in (("simulated", check.only_sim), ("real", check.only_real)):
        if plans:
            said.append(f"Only {which}, so not compared: {listed(plans)}.")
    return said


def same_operations(check: CrossCheck) -> str:
    total = sum(len(each.pairs) for each in check.comparisons)
    if check.verdict.is_exact:
        return (
            f"The same {total:,} operations (counted on every rank) ran in both: kind, name, axes, bytes of messages, "
            "and order on every lane."
        )
    counts = [f"{each.plan}: {each.num_different:,}" for each in check.comparisons if each.num_different]
    return f"Operations that differ (counted on every rank): {'; '.join(counts)}. Compared: {total:,}."


def collective_times(verdict: Verdict) -> str:
    """How far the collectives that are judged lie apart."""
    least = quantity(verdict.min_bytes, "bytes")
    if not verdict.judged:
        return f"No collective has messages of {least} or more, so that none is judged by its time; try --min-bytes."
    return (
        f"Of {verdict.judged:,} collectives of {least} or more (counted on every rank), half took a time within "
        f"{percent(verdict.apart)} of the simulated one (allowed: {percent(verdict.tolerance)}); the median ratio of "
        f"real to simulated is {number(verdict.ratio)}."
    )


def ranking(check: CrossCheck) -> str:
    """Whether the plans rank alike."""
    verdict = check.verdict
    steps = [step_times(each) for each in check.comparisons]
    sim, real = (_ordered(steps, which) for which in ("sim_s", "real_s"))
    close = listed([f"{a} and {b}" for a, b in verdict.close])
    noise = f" The real steps of {close} differ by less than their own noise." if close else ""
    match verdict.ranking:
        case "differ":
            pairs = listed([f"{a} before {b}" for a, b in verdict.swapped])
            return (
                f"The plans do not rank alike: simulated {sim}; real {real}. Simulated the other way: {pairs}.{noise}"
            )
        case "alike within noise":
            return f"The plans rank alike within noise: simulated {sim}; real {real}.{noise}"
        case _:
            return f"The plans rank alike, the fastest first: {sim}.{noise}"


def differences(comparison: Comparison) -> list[str]:
    """The first differences of a plan, and how many more there are."""
    said = [str(difference) for difference in comparison.differences[:MAX_LISTED]]
    more = len(comparison.differences) - len(said)
    return [*said, f"and {more:,} more"] if more else said


def _ordered(steps: list[StepTimes], which: str) -> str:
    return ", ".join(step.plan for step in sorted(steps, key=lambda step: float(getattr(step, which))))
