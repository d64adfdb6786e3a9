"""Softmaxes: the cost of their passes over memory, and the methods of the loss over cut classes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from simfrontier.analysis import LossCall, Softmaxes
from simfrontier.report.markup import keyed, panels, paragraph, plot, section, table, text
from simfrontier.report.phrases import NOTHING, binary, listed, percent, quantity, signed
from simfrontier.report.softmax_figures import bars
from simfrontier.report.view import StudyView, step_s
from simfrontier.schedule import KERNELS, MemoryPasses

Known = Mapping[str, Softmaxes]  # by plan, of those that fit


def softmax(view: StudyView) -> str:
    """The section, or nothing where no plan names a kernel or a method of the loss."""
    known = {size: _known(view, size) for size in reversed(view.sizes)}
    known = {size: each for size, each in known.items() if each}
    if not known:
        return ""
    figures = {f"{size:,}": bars(list(each), each) for size, each in known.items()}
    tables = {f"{size:,}": _table(view, size, each) for size, each in known.items()}
    return section(
        "softmax",
        "Softmax and cross-entropy: passes over memory, and messages",
        *(paragraph(message, "callout") for message in _gained(view, known)),
        *(paragraph(message) for message in _why(view, known)),
        plot("fig-softmax", figures, "Time of softmaxes and of the loss, per plan"),
        panels(tables),
        paragraph(
            f"Memory that a {view.device} moves and time in one step, of all layers and micro-batches; recomputed "
            f"softmaxes included, those of the backward not. A collective’s size is what a {view.device} brings to it. "
            "The share is of the step; the gain is in samples per second over the first plan."
            + (f" Buttons: {view.devices}." if len(known) > 1 else ""),
            "note",
        ),
        *_by_size(view, known),
    )


def _known(view: StudyView, size: int) -> Known:
    return {o.plan: o.softmaxes for o in view.at(size) if o.softmaxes is not None and o.row["fits"]}


# ── in short ──


def _gained(view: StudyView, known: Mapping[int, Known]) -> Iterator[str]:
    """What each plan gains over the first, at every size."""
    parts = []
    for size in sorted(known):
        gains = {plan: gain for plan in known[size] if (gain := _gain(view, plan, size)) is not None}
        if gains:
            message = listed([f"{plan} {_changed(gain)}" for plan, gain in gains.items()])
            parts.append(f"at {size:,} {view.devices} {message}")
    if parts:
        yield f"Against {view.plans[0]}: {'; '.join(parts)}."


def _changed(gain: float) -> str:
    size = percent(abs(gain))
    return "changes nothing" if size == percent(0.0) else f"{'gains' if gain > 0 else 'loses'} {size}"


def _gain(view: StudyView, plan: str, size: int) -> float | None:
    """Samples per second over those of the scenario's first plan at a size, less 1; None of the first itself."""
    speedup = next((o.row["speedup"] for o in view.at(size) if o.plan == plan), "")
    return None if speedup == "" or plan == view.plans[0] else float(speedup) - 1.0


def _why(view: StudyView, known: Mapping[int, Known]) -> Iterator[str]:
    every = [one for each in known.values() for one in each.values()]
    kernels = [kernel for kernel in KERNELS if any(one.kernel == kernel for one in every)]
    if kernels != ["fused"]:
        passes = [f"{kernel} {_accesses(KERNELS[kernel])}" for kernel in kernels]
        yield (
            "Why: bytes. A softmax computes little on what it reads, so that it takes as long as the memory needs for "
            f"its passes over a row of N numbers: {listed(passes)} (counts of arXiv 2001.04438; with fused, rows stay "
            "on the chip). They are those of attention where its scores are in memory, and of the loss where every "
            "rank has all classes. In a fused attention no score reaches memory, and the kernel matters little."
            + _widths(view)
        )
    if any(one.calls for one in every):
        yield (
            "Where ranks have some of the classes each, they form the loss together. A pass over the logits that a way "
            "saves is time saved, the more the more classes a rank has; messages are a few numbers for each token, "
            "however many classes there are. " + " ".join((*_turned(known, view.device), *_alike(every)))
        ).strip()


def _widths(view: StudyView) -> str:
    """Where the loss's result is narrower than its row, accesses of the two are not alike."""
    precision = view.scenario.precision
    if not precision.is_mixed:
        return ""
    return (
        f" The loss reads logits of {precision.wide} and writes a gradient of {precision.model}: each access counts at "
        "its own width."
    )


def _alike(every: list[Softmaxes]) -> Iterator[str]:
    if {"one-gather", "mn-merge"} <= {one.method for one in every}:
        yield (
            "one-gather and mn-merge move the same bytes in the same calls: that one keeps a running maximum and the "
            "other needs none is arithmetic, which costs nothing here beside memory."
        )


def _accesses(passes: MemoryPasses) -> str:
    reads, writes = passes.row_reads + passes.result_reads, passes.result_writes
    return f"reads {reads if reads > 1 else ''}N and writes {writes if writes > 1 else ''}N"


def _turned(known: Mapping[int, Known], device: str) -> Iterator[str]:
    """What the fewest collectives take and the most, and where fewer of them take longer."""
    for size in sorted(known):
        calls = {plan: one for plan, one in known[size].items() if one.calls}
        number = {plan: sum(call.number for call in one.calls) for plan, one in calls.items()}
        if len(set(number.values())) < 2:
            continue
        fewest, most = min(number, key=number.__getitem__), max(number, key=number.__getitem__)
        quickest = min(calls, key=lambda plan: calls[plan].calls_s)
        took = f"{quantity(calls[fewest].calls_s, 's')} for its {_calls_text(calls[fewest].calls)}"
        if number[quickest] == number[fewest]:
            yield f"At {size:,} {device}s {fewest} takes {took}, {most} {quantity(calls[most].calls_s, 's')}."
            continue
        gathered = sum(call.number * call.rank_bytes for call in calls[fewest].calls if call.kind == "all_gather")
        why = f": every {device} gets what all say, {binary(size * gathered)}" if gathered else ""
        yield (
            f"At {size:,} {device}s fewer are slower, {fewest} takes {took}, "
            f"{quickest} {quantity(calls[quickest].calls_s, 's')}{why}."
        )


def _calls_text(calls: tuple[LossCall, ...]) -> str:
    return listed([_call(call) for call in calls])


def _call(call: LossCall) -> str:
    several = "s" if call.number > 1 else ""
    kind = call.kind.replace("_", "-")
    return f"{call.number:,} {kind}{several} of {binary(call.rank_bytes)}"


# ── numbers ──


def _table(view: StudyView, size: int, known: Known) -> str:
    steps = {o.plan: step_s(o) for o in view.at(size) if o.plan in known}
    has_scores = any(one.scores_bytes for one in known.values())
    has_calls = any(one.calls for one in known.values())
    head = ["plan", "kernel" if not has_calls else "loss"]
    head += [*["softmax of attention"] * has_scores, "kernels of the loss", *["collectives"] * has_calls]
    rows = []
    for plan, one in known.items():
        row = [keyed(view.marks[plan].colour, plan), _named(view, plan, size, one, has_calls)]
        if has_scores:
            row.append(_spent(one.scores_bytes, one.scores_s))
        row.append(_spent(one.loss_bytes, one.loss_s))
        if has_calls:
            message = "<br>".join(_call(call) for call in one.calls)
            row.append(f"{message}<small>{quantity(one.calls_s, 's')}</small>" if one.calls else NOTHING)
        gain = _gain(view, plan, size)
        row += [percent(one.seconds / steps[plan]), quantity(steps[plan], "s"), _signed(gain)]
        rows.append(row)
    return table([*head, "share", "step", "gain"], rows, "plans")


def _signed(gain: float | None) -> str:
    return NOTHING if gain is None else signed(gain)


def _named(view: StudyView, plan: str, size: int, one: Softmaxes, has_calls: bool) -> str:
    """The method of the loss where ranks have some of the classes, and the kernel of whole rows; where no plan cuts
    classes, the kernel, and whether attention is fused."""
    if has_calls:
        kernel = "" if one.kernel == "fused" else f"<small>kernel {text(one.kernel)}</small>"
        return f"{text(one.method)}{kernel}"
    fused = view.cases[plan, size].attention == "fused"
    return f"{text(one.kernel)}<small>{'attention fused' if fused else 'scores in memory'}</small>"


def _spent(num_bytes: int, seconds: float) -> str:
    if not num_bytes:
        return NOTHING
    return f"{quantity(num_bytes, 'bytes')}<small>{quantity(seconds, 's')}</small>"


def _by_size(view: StudyView, known: Mapping[int, Known]) -> Iterator[str]:
    """The gains side by side, where there are several sizes."""
    if len(known) < 2:
        return
    sizes = sorted(known)
    yield f"<h3>Gain of the step over {text(view.plans[0])}, by {view.devices}</h3>"
    rows = []
    for plan in view.plans:
        gains = [_signed(_gain(view, plan, size) if plan in known[size] else None) for size in sizes]
        rows.append([keyed(view.marks[plan].colour, plan), *gains])
    yield table(["plan", *(f"{size:,}" for size in sizes)], rows)
