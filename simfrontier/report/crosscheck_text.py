"""What a cross-check comes to, in sentences that the console and the page share."""

from __future__ import annotations

from collections.abc import Sequence

from simfrontier.report.phrases import binary, listed, number, percent, quantity, signed
from simfrontier.trace import (
    ALLOWED,
    JUDGED_BYTES,
    LEAST_JUDGED_BYTES,
    WITHIN,
    AgreementLimit,
    Comparison,
    CrossCheck,
    Implementation,
    LinkCheck,
    LinkPair,
    PlanStepTimes,
    SweepPoint,
    Verdict,
    limits_of,
    step_times,
    sweep_medians,
)

MAX_LISTED = 8  # differences of a plan that are listed


def crosscheck_lead(check: CrossCheck) -> str:
    """Whether they agree, in one sentence."""
    verdict = check.verdict
    if check.agree:
        missed = [limit for limit in applied_limits(check) if not limit.holds]
        but = f" but for {len(missed)} of {len(applied_limits(check))} limits of the emulated run" if missed else ""
        return f"Simulation and reality agree{but}."
    if not verdict.is_exact:
        return "Simulation and reality did not run the same operations."
    faults = []
    if not verdict.is_near:
        faults.append("the time of collectives" if verdict.judged else "no collective being large enough to judge by")
    if verdict.ranking == "differ":
        faults.append("the order of the plans")
    if any(each.num_missed for each in check.links):
        faults.append("the bytes of links")
    return f"Simulation and reality do not agree: {listed(faults)}."


def applied_limits(check: CrossCheck) -> tuple[AgreementLimit, ...]:
    """The limits of an emulated run; none of any other."""
    return limits_of(check) if check.sweep else ()


def crosscheck_findings(check: CrossCheck) -> list[str]:
    """Sentences: the grounds of the verdict, collectives that were measured alone, and what could not be compared."""
    parts = [same_operations(check), collective_times(check.verdict)]
    if check.verdict.ranking != "one plan":
        parts.append(ranking(check))
    if check.links:
        parts.append(link_bytes(check.links))
    if check.only_counted:
        parts.append(f"Bytes of links counted but not simulated, so not compared: {listed(check.only_counted)}.")
    if check.sweep:
        parts.append(swept(check.sweep))
    for which, plans in (("simulated", check.only_sim), ("real", check.only_real)):
        if plans:
            parts.append(f"Only {which}, so not compared: {listed(plans)}.")
    return parts


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
    """The differences of the collectives that are judged."""
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


def link_bytes(checks: Sequence[LinkCheck]) -> str:
    """Whether the simulated bytes of links are those that were counted."""
    judged = [(pair, each.plan) for each in checks for pair in each.judged]
    least, allowed = quantity(JUDGED_BYTES, "bytes"), percent(WITHIN)
    if not judged:
        return f"No link carries more than {least} in a step, so that none is judged by its bytes."
    worst, plan = max(judged, key=lambda result: result[0].apart)
    num_missed = sum(each.num_missed for each in checks)
    links = f"{len(judged):,} link directions that carry more than {least} in a step"
    if len(checks) > 1:
        links += f" (of {len(checks)} plans together)"
    text = (
        f"Of {links}, {num_missed:,} carried bytes more than {allowed} off the simulated ones"
        if num_missed
        else f"All {links} carried the simulated bytes within {allowed}"
    )
    return f"{text}; the worst, {worst.name} in {plan}: {link_words(worst)}."


def link_words(pair: LinkPair) -> str:
    """The bytes of a link, simulated and counted, and their difference."""
    both = f"{quantity(pair.sim_bytes, 'bytes')} simulated, {quantity(pair.real_bytes, 'bytes')} counted"
    return f"{both} ({signed(pair.ratio - 1)})" if pair.sim_bytes else both


def swept(points: Sequence[SweepPoint]) -> str:
    """The agreement of collectives measured alone, by implementation."""
    parts = [_swept(variant, points) for variant in ALLOWED if any(point.collectives == variant for point in points)]
    return f"Collectives measured alone, median over messages of {binary(LEAST_JUDGED_BYTES)} or more: " + (
        "; ".join(parts) + "."
    )


def _swept(variant: Implementation, points: Sequence[SweepPoint]) -> str:
    medians = [each for each in sweep_medians(points) if each.collectives == variant]
    if not medians:
        return f"{variant}, none is large enough to judge by"
    worst = max(medians, key=lambda each: each.apart)
    near = sum(each.is_near for each in medians)
    return (
        f"{variant}, {near} of {len(medians)} took a time within {percent(ALLOWED[variant])} of the simulated one "
        f"(the worst, {worst.kind.replace('_', '-')} over {worst.group}, {percent(worst.apart)} apart)"
    )


def differences(comparison: Comparison) -> list[str]:
    """The first differences of a plan, and how many more there are."""
    parts = [str(difference) for difference in comparison.differences[:MAX_LISTED]]
    more = len(comparison.differences) - len(parts)
    return [*parts, f"and {more:,} more"] if more else parts


def _ordered(steps: list[PlanStepTimes], which: str) -> str:
    return ", ".join(step.plan for step in sorted(steps, key=lambda step: float(getattr(step, which))))
