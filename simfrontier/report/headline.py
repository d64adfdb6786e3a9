"""The headline in words, computed from the rows: which plan is fastest, by how much, and what holds the others back."""

from __future__ import annotations

from simfrontier.report.markup import cards, items, paragraph, section, swatch, text
from simfrontier.report.phrases import in_words, listed, number, percent, quantity, tokens_per_second
from simfrontier.report.probability import SURE, faster_in, median_rate, sampled_rate, sampled_step, share_faster
from simfrontier.report.view import StudyView, rate, step_s
from simfrontier.study import PlanOutcome

_PARTS = {
    "inter_node": "communication between nodes that kernels do not hide",
    "intra_node": "communication inside nodes that kernels do not hide",
    "package": "communication inside packages that kernels do not hide",
    "codec": "encoding, decoding and reordering",
    "idle": "waiting with nothing to do",
}
_BUBBLE = "waiting for other stages of the pipeline (the bubble)"
_SAME = 0.0005


def headline(view: StudyView) -> str:
    """The first section: sentences, key numbers, and one line for every other plan."""
    if not view.ranked:
        lead = f"None of the {len(view.plans)} plans fits in memory at {view.largest:,} {view.devices}."
        return section("headline", "In short", paragraph(lead, "lead"), _others(view, None))
    return section(
        "headline",
        "In short",
        paragraph(lead_sentence(view), "lead"),
        _cards(view, view.ranked[0]),
        "" if len(view.plans) == 1 else "<h3>What holds the others back</h3>" + _others(view, view.ranked[0]),
    )


def lead_sentence(view: StudyView) -> str:
    """Which plan is fastest at the largest size, and by how much, or that the samples do not agree on which it is."""
    best, *rest = view.ranked
    ahead = [outcome for outcome in rest if view.pace(best) / view.pace(outcome) - 1 >= _SAME]
    close = [outcome.plan for outcome in ahead if (share := share_faster(best, outcome)) is not None and share < SURE]
    leads = f"{best.plan} is predicted to {'be the fastest' if len(view.plans) > 1 else 'run'}"
    if close:
        leads = f"{listed([best.plan, *close])} are too close to call; {best.plan} leads"
    message = f"At {view.largest:,} {view.devices}, {leads}: {number(rate(best))} TFLOPS per {view.device}"
    if view.scenario.machine.device.speed_sd and best.samples_s is not None:
        message += f" where all are typical ({median_rate(view.scenario, best)})"
    equal = [outcome.plan for outcome in rest if outcome not in ahead]
    if equal:
        message += f", the same as {listed(equal)}"
    if ahead:
        more = "more" if len(set(view.recomputing.values())) == 1 else "faster"
        message += f", {percent(view.pace(best) / view.pace(ahead[0]) - 1)} {more} than {ahead[0].plan}"
        message += f" ({number(rate(ahead[0]))})"
    if len(ahead) > 1:
        message += (
            f" and {percent(view.pace(best) / view.pace(ahead[-1]) - 1)} {more} than the slowest, {ahead[-1].plan}"
        )
    often = faster_in(best, ahead[0]) if ahead else ""
    return message + (f"; {best.plan} is faster than {ahead[0].plan} in {often}." if often else ".")


def _cards(view: StudyView, best: PlanOutcome) -> str:
    row, hbm = best.row, view.scenario.machine.device.hbm_bytes
    first = min(o.devices for o in view.study.of(best.plan) if o.row["fits"])
    exposed, step = float(row["exposed_comm_s"]), step_s(best)
    recomputes = view.recomputing[best.plan]
    peak = rate(best) * 1e12 / view.scenario.at(view.largest).peak_flops_per_s
    scaled = (percent(float(row["scaling_efficiency"])), "scaling efficiency", f"against {first:,} {view.devices}")
    return cards(
        [
            (number(rate(best)), f"TFLOPS per {view.device}", _per_device(view, best)),
            (quantity(step, "s"), "per step", _per_step(view, best)),
            *([scaled] if len(view.sizes) > 1 else []),
            (percent(exposed / step), "of the step is not compute", quantity(exposed, "s")),
            (percent(float(row["mfu"])), "MFU", "of the nominal matrix peak"),
            *([(percent(peak), "share of the peak", "as MFU, recomputation counted")] if recomputes else []),
            (
                quantity(float(row["peak_memory_bytes"]), "bytes"),
                "peak memory",
                f"of {quantity(hbm, 'bytes')} per {view.device}",
            ),
        ]
    )


def _per_device(view: StudyView, best: PlanOutcome) -> str:
    message, sampled = f"{best.plan} on {view.largest:,}", sampled_rate(view.scenario, best)
    if not sampled:
        return message
    return f"{message}{', all typical' if view.scenario.machine.device.speed_sd else ''}; {sampled}"


def _per_step(view: StudyView, best: PlanOutcome) -> str:
    unit = tokens_per_second(view.shapes[view.largest].sequence)
    message, sampled = f"{in_words(float(best.row['tokens_per_s']))} {unit} in all", sampled_step(view.scenario, best)
    return f"{message}; {sampled}" if sampled else message


def _others(view: StudyView, best: PlanOutcome | None) -> str:
    others = [outcome for outcome in [*view.ranked, *view.drawn] if outcome is not best]
    ordered = list({outcome.plan: outcome for outcome in others}.values())
    return items(
        (f"{swatch(view.marks[o.plan].colour)}<b>{text(o.plan)}</b>: {text(limit(o))}" for o in ordered), "plain"
    )


def limit(outcome: PlanOutcome) -> str:
    """What costs a plan the most beside its kernels, or that it does not fit."""
    if not outcome.row["fits"]:
        return f"does not fit: {outcome.row['note']}."
    step = step_s(outcome)
    parts = _PARTS if outcome.stages is None else _PARTS | {"idle": _BUBBLE}
    name = max(parts, key=lambda part: float(getattr(outcome.exposure, part)))
    largest = float(getattr(outcome.exposure, name))
    message = f"{number(rate(outcome))} TFLOPS; "
    if largest < 0.005 * step:
        return (
            message
            + f"its kernels fill {percent(outcome.exposure.compute / step)} of the step, next to nothing else shows."
        )
    return message + f"{quantity(largest, 's')} of {quantity(step, 's')} ({percent(largest / step)}) is {parts[name]}."
