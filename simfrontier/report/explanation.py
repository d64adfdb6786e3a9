"""The page of an explanation: the critical path of a step, the changes that help, and the differences to another
plan."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from simfrontier.explanation import Explanation, PlanComparison, TriedChange
from simfrontier.report.ending import how_to_read
from simfrontier.report.explanation_figures import (
    changes_figure,
    colours_of,
    parts_figure,
    strip_figure,
    waterfall_figure,
)
from simfrontier.report.explanation_text import (
    best_sentence,
    headline_sentence,
    set_words,
    shown_differences,
    shown_parts,
    signed_seconds,
)
from simfrontier.report.markup import cards, paragraph, plot, section, table, text
from simfrontier.report.phrases import percent, quantity, signed
from simfrontier.report.render import whole_page
from simfrontier.wholefile import write_whole

CONTENTS = {
    "headline": "In short",
    "path": "Critical path",
    "help": "What would help",
    "difference": "Difference",
    "reading": "How to read",
}
_MEANINGS = {
    "critical path": "The chain of ops that the step's end waited for: walked back from the op that ended last, at "
    "each op to the rank that came to it last, and there to what that rank had waited for. Each op begins when the one "
    "before it ended, so that their times sum to the step.",
    "part": "All ops of the path of one kind, over the same axes and across the same boundary of the machine.",
    "by sharing": "Time beyond what the ops take with nothing beside them: others use the same links, memory or "
    "compute units at that time.",
    "what would help": "A change of the scenario, and the step simulated again with it; never a share of the path "
    "taken off. What was hidden may become critical when a part is shorter, so savings do not add up.",
    "loses precision": "The change sends weights or gradients in fewer bits than the plan does: what that does to the "
    "training is not told here.",
    "hidden": "Work that runs beside the critical path costs nothing there. Products that run behind a longer gather "
    "are not on the path, so a plan can have less of them there and compute as much.",
}


def explanation_page(explanation: Explanation) -> str:
    """The page as text; the same explanation gives the same text."""
    sections = {
        "headline": _headline(explanation),
        "path": _path(explanation),
        "help": _help(explanation),
        "difference": "" if explanation.against is None else _difference(explanation, explanation.against),
        "reading": how_to_read(_MEANINGS),
    }
    heading = f"Why {explanation.plan} is as fast as it is"
    return whole_page(heading, f"{explanation.title}: {heading}", _subtitle(explanation), CONTENTS, sections)


def write_explanation_page(explanation: Explanation, path: Path) -> None:
    """Write the page. Raises InputError where the file cannot be written."""
    write_whole(path, explanation_page(explanation))


def _subtitle(explanation: Explanation) -> str:
    given = f" With {', '.join(explanation.given)}." if explanation.given else ""
    return (
        f"{explanation.title}: {explanation.plan} on {explanation.devices:,} {explanation.device_word}s of "
        f"{explanation.machine}, simulated by simfrontier (scenario {explanation.scenario}, fidelity "
        f"{explanation.fidelity}), {explanation.samples:,} sequences per step.{given}"
    )


def _headline(explanation: Explanation) -> str:
    first = explanation.path.parts()[0] if explanation.path.links else None
    sharing_s = sum(part.sharing_s for part in explanation.path.parts())
    shown = [(quantity(explanation.step_s, "s"), "a step", f"{explanation.samples:,} sequences")]
    if first is not None:
        largest = shown_parts((first,), first.seconds)[0].words
        shown.append((percent(first.seconds / explanation.step_s), "largest part", largest))
        shown.append((percent(sharing_s / explanation.step_s), "by sharing", "of links, memory and compute units"))
    best = next((change for change in explanation.changes if change.fits), None)
    if best is not None:
        shown.append((signed_seconds(-best.saved_s), "what helps most", best.label))
    if explanation.against is not None:
        change = explanation.step_s - explanation.against.path.step_s
        shown.append((signed_seconds(change), f"against {explanation.against.plan}", "a step"))
    return section(
        "headline",
        "In short",
        paragraph(f"{headline_sentence(explanation)}.", "lead"),
        paragraph(f"{best_sentence(explanation)}.") if explanation.changes else "",
        paragraph(f"{explanation.plan} is {explanation.against.sentence}.") if explanation.against is not None else "",
        cards(shown),
    )


def _path(explanation: Explanation) -> str:
    colours = colours_of([explanation.path])
    rows = [
        [
            text(part.words),
            quantity(part.seconds, "s"),
            percent(part.seconds / explanation.step_s),
            quantity(part.sharing_s, "s"),
            f"{part.calls:,}",
        ]
        for part in shown_parts(explanation.path.parts(), explanation.step_s)
    ]
    rows.append(["<b>the step</b>", f"<b>{quantity(explanation.step_s, 's')}</b>", percent(1.0), "", ""])
    return section(
        "path",
        "The critical path",
        paragraph(
            "What the step's end waited for, op after op. The parts sum to the step; what runs beside them is hidden."
        ),
        plot(
            "fig-parts",
            {explanation.plan: parts_figure({explanation.plan: explanation.path}, colours)},
            "The critical path by part",
        ),
        "<h3>What is critical when</h3>",
        paragraph("Along the time of the step; drag to zoom in, double-click for the whole step.", "note"),
        plot(
            "fig-strip",
            {explanation.plan: strip_figure(explanation.path, colours)},
            "The critical path along the step's time",
        ),
        table(["part", "time", "of the step", "by sharing", "ops"], rows, "named"),
    )


def _help(explanation: Explanation) -> str:
    if not explanation.changes:
        return ""
    kept = f" What the plan's search has found is kept: {set_words(explanation.kept)}." if explanation.kept else ""
    return section(
        "help",
        "What would help",
        paragraph(f"Each row is a simulation of the whole step with one thing changed; savings do not add up.{kept}"),
        plot("fig-changes", {explanation.plan: changes_figure(explanation)}, "Seconds saved by each change"),
        table(
            ["change", "step", "saved", "of the step", "to repeat it"],
            _change_rows(explanation.changes),
            "plans commands",
        ),
    )


def _change_rows(changes: Iterable[TriedChange]) -> list[list[str]]:
    return [
        [
            text(change.label) + (f"<small{_warned(change)}>{text(change.note)}</small>" if change.note else ""),
            quantity(change.step_s, "s"),
            signed_seconds(change.saved_s),
            signed(change.share),
            "".join(f"<code>{text(set_words((setting,)))}</code>" for setting in change.settings),
        ]
        for change in changes
    ]


def _warned(change: TriedChange) -> str:
    return "" if change.fits else ' class="no"'


def _difference(explanation: Explanation, other: PlanComparison) -> str:
    paths = {explanation.plan: explanation.path, other.plan: other.path}
    rows = [
        [text(words), quantity(a_s, "s"), quantity(b_s, "s"), signed_seconds(a_s - b_s)]
        for words, a_s, b_s in shown_differences(other)
    ]
    whole = (explanation.step_s, other.path.step_s)
    rows.append(
        ["<b>the step</b>", *(f"<b>{quantity(each, 's')}</b>" for each in whole), signed_seconds(whole[0] - whole[1])]
    )
    return section(
        "difference",
        f"{explanation.plan} against {other.plan}",
        paragraph(f"{explanation.plan} is {other.sentence}.", "callout"),
        plot(
            "fig-both", {"both": parts_figure(paths, colours_of(list(paths.values())))}, "Both critical paths by part"
        ),
        paragraph(
            f"From a step of {other.plan} down to one of {explanation.plan}: green is less, red is more.", "note"
        ),
        plot("fig-waterfall", {"difference": waterfall_figure(explanation, other)}, "From one step to the other"),
        table(["part", explanation.plan, other.plan, "difference"], rows, "named"),
    )
