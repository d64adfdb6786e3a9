"""Compressed messages: what each policy gains in speed, and how many bytes it sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from simfrontier.analysis import SIDES, SentBytes, Side, sent_by_dimension
from simfrontier.codecs import Codec
from simfrontier.plan import DIMENSIONS, PLAIN, Compression, MegatronOptions
from simfrontier.report.markup import keyed, paragraph, section, table, text
from simfrontier.report.phrases import NOTHING, TOO_BIG, binary, listed, number, percent, quantity, signed
from simfrontier.report.published import comparable
from simfrontier.report.view import StudyView, rate
from simfrontier.study import schedule_of_case

Bytes = Mapping[str, Mapping[Side, SentBytes]]  # by plan
SIDE_NAMES: Final[Mapping[Side, str]] = {
    "dp": "gradients (dp)",
    "tp": "inside layers (tp)",
    "pp": "between stages (pp)",
    "zero": "weights (zero)",
    "other": "other",
}
_OF_CODECS: Final = ("compression", "compress_from", "compress_per_hop", "message_dtype")
_WIDE: Final = {"fp16": 16, "bf16": 16}  # bits of the numbers that are widened before they are compressed
_SEEN: Final = Fraction(1, 1000)  # of all bytes, below which a kind of them gets no column


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressionRow:
    """A plan whose messages may be compressed.

    `of`: the type of its messages where they are not compressed; `baseline`: the plan that sends the same messages
    uncompressed (its own name if it is one); `size`: the largest at which both fit, where `gain` is its TFLOPS over the
    baseline's, less 1. `published`: the same, published.
    """

    plan: str
    options: MegatronOptions
    of: str
    baseline: str | None = None
    size: int | None = None
    gain: float | None = None
    published: float | None = None

    @property
    def is_plain(self) -> bool:
        return self.options.compression == "none"

    @property
    def policy(self) -> str:
        """What it compresses by, in words."""
        per_hop = " per hop" if self.options.compress_per_hop and not self.is_plain else ""
        return f"{self.options.compression}{per_hop}"


def compression(view: StudyView) -> str:
    """The section, or nothing where no plan compresses or widens its messages."""
    known = compression_rows(view)
    if all(one.options.compressed is None for one in known):
        return ""
    cases = {one.plan: view.cases[one.plan, view.largest] for one in known}
    bytes_of = {plan: sent_by_dimension(schedule_of_case(view.scenario, case)) for plan, case in cases.items()}
    return section(
        "compression",
        "Compressed messages",
        *(paragraph(message, "callout") for message in gains(view, known)),
        paragraph(_introduced(view, known)),
        "<h3>What is sent</h3>",
        *_sent(view, known, bytes_of),
        *(paragraph(message) for message in trap(view, known, bytes_of)),
    )


def compression_rows(view: StudyView) -> list[CompressionRow]:
    """The plans with tensor and pipeline parallelism that the study has, in the scenario's order."""
    plans = {
        plan: case.options
        for (plan, size), case in view.cases.items()
        if size == view.largest and isinstance(case.options, MegatronOptions)
    }
    return [_row_of_plan(view, plan, options, plans) for plan, options in plans.items()]


def _row_of_plan(
    view: StudyView, plan: str, options: MegatronOptions, plans: Mapping[str, MegatronOptions]
) -> CompressionRow:
    baseline = plan if options.compression == "none" else _baseline(view, options, plans)
    size, gain = _gain(view, plan, baseline)
    return CompressionRow(
        plan=plan,
        options=options,
        of=_type(view, options),
        baseline=baseline,
        size=size,
        gain=gain,
        published=_published(view, plan, baseline),
    )


def _type(view: StudyView, options: MegatronOptions) -> str:
    own = view.scenario.file.model.precision if options.message_dtype == "model" else options.message_dtype
    return own.upper()


def _baseline(view: StudyView, options: MegatronOptions, plans: Mapping[str, MegatronOptions]) -> str | None:
    """The plan with the same messages uncompressed: the one that is the same in all else too, if there is one."""
    plain = {
        plan: other
        for plan, other in plans.items()
        if other.compression == "none" and _type(view, other) == _type(view, options)
    }
    wanted = _but_for_codecs(options)
    return next((plan for plan, other in plain.items() if _but_for_codecs(other) == wanted), next(iter(plain), None))


def _but_for_codecs(options: MegatronOptions) -> MegatronOptions:
    return options.model_copy(update={key: MegatronOptions.model_fields[key].default for key in _OF_CODECS})


def _gain(view: StudyView, plan: str, baseline: str | None) -> tuple[int | None, float | None]:
    """(the largest size at which a plan and its baseline fit, how much faster it is there)."""
    fitting = {(o.plan, o.devices): rate(o) for o in view.study.outcomes if o.row["fits"]}
    for size in reversed(view.sizes):
        if baseline is not None and (plan, size) in fitting and (baseline, size) in fitting:
            return size, fitting[plan, size] / fitting[baseline, size] - 1
    return None, None


def _published(view: StudyView, plan: str, baseline: str | None) -> float | None:
    """The published gain, if the figures are of this machine and have both plans."""
    figures = comparable(view.scenario)
    ratios = {} if figures is None else figures.ratios
    return ratios[plan] / ratios[baseline] - 1 if plan != baseline and plan in ratios and baseline in ratios else None


# ── in short ──


def gains(view: StudyView, known: list[CompressionRow]) -> Iterator[str]:
    """For each kind of messages: which policy gains how much."""
    groups: dict[tuple[str, str | None, int | None], list[str]] = {}
    idle = []
    for one in known:
        if one.is_plain:
            continue
        if one.gain is None:
            idle.append(one)
            continue
        groups.setdefault((one.of, one.baseline, one.size), []).append(_gain_text(one, one.gain))
    for (of, baseline, size), message in groups.items():
        assert size is not None, "a gain is of a size"
        yield f"With {of} messages, against {baseline} at {size:,} {view.devices}: {'; '.join(message)}."
    for one in idle:
        why = (
            f"no plan sends {one.of} messages uncompressed"
            if one.baseline is None
            else f"there is no size at which both it and {one.baseline} fit"
        )
        yield f"{one.plan} has nothing to be held against: {why}."


def _gain_text(one: CompressionRow, gain: float) -> str:
    size = percent(abs(gain))
    speed = "gains nothing" if size == percent(0.0) else f"{'gains' if gain > 0 else 'loses'} {size}"
    return f"{one.plan} {speed}"


def _introduced(view: StudyView, known: list[CompressionRow]) -> str:
    """What is compressed, by what, and what a gain is."""
    per_hop = any(one.options.compress_per_hop and not one.is_plain for one in known)
    from_bytes = {one.options.compress_from for one in known if not one.is_plain}
    small = [f"Messages of fewer than {binary(least)} on a rank are sent as they are." for least in from_bytes if least]
    return " ".join(
        [
            "A codec makes messages smaller before they are sent, at the cost of the time to encode and decode them "
            "and, unless it is lossless, of an error in every number. A policy says which codec takes which messages: "
            "those of gradients (dp), of values inside layers (tp), between pipeline stages (pp), and of weights "
            "(zero). zfp:8 writes 8 bits per number, with an error; mpc is lossless. The gain is in TFLOPS per "
            f"{view.device}, over the plan that sends the same messages uncompressed.",
            *(small if len(from_bytes) == 1 else []),
            *(["Per hop: every message between two ranks is coded by itself, again and again in a ring."] * per_hop),
        ]
    )


# ── bytes ──


def _sent(view: StudyView, known: list[CompressionRow], bytes_of: Bytes) -> Iterator[str]:
    least = {plan: _SEEN * sum(sent.values(), SentBytes()).num_bytes for plan, sent in bytes_of.items()}
    used = [side for side in SIDES if any(sent[side].num_bytes > least[plan] for plan, sent in bytes_of.items())]
    yield paragraph(
        f"Payload that all ranks must send in one step at {view.largest:,} {view.devices}, whatever the library’s "
        "algorithm; below it, what it is of the same messages in the model’s own type. The error is the largest that "
        "a codec may make, relative to the largest number of a block."
    )
    head = ["plan", "codecs", *(SIDE_NAMES[side] for side in used), "in all", "error, at most", "gain"]
    yield table(head, (_row(view, one, bytes_of[one.plan], used) for one in known))


def _row(view: StudyView, one: CompressionRow, sent: Mapping[Side, SentBytes], used: list[Side]) -> list[str]:
    compressed = one.options.compressed
    return [
        keyed(view.marks[one.plan].colour, one.plan),
        _codecs(one, compressed),
        *(_size(sent[side]) for side in used),
        f"<b>{_size(sum(sent.values(), SentBytes()))}</b>",
        _error(compressed.relative_error) if compressed and not one.is_plain else NOTHING,
        _faster(view, one),
    ]


def _error(bound: float) -> str:
    return percent(bound) if bound >= 0.001 else f"{100 * bound:.1g}\u00a0%" if bound else "none"


def _codecs(one: CompressionRow, compressed: Compression | None) -> str:
    """One codec where all dimensions have it, else one line for each; and the type of the messages."""
    names: dict[str, list[str]] = {}
    for side in DIMENSIONS:
        codec = None if compressed is None or one.is_plain else compressed.codec(side)
        names.setdefault(text(codec or PLAIN), []).append(side)
    parts = [f"{', '.join(sides)}: {codec}" if len(names) > 1 else codec for codec, sides in names.items()]
    per_hop = ", per hop" if one.options.compress_per_hop and not one.is_plain else ""
    return f"{'<br>'.join(parts)}<small>{one.of} messages{per_hop}</small>"


def _size(sent: SentBytes) -> str:
    share = "" if sent.share is None else f"<small>{percent(float(sent.share))}</small>"
    return f"{quantity(float(sent.num_bytes), 'bytes')}{share}" if sent.num_bytes else NOTHING


def _faster(view: StudyView, one: CompressionRow) -> str:
    if one.is_plain or one.baseline is None:
        return NOTHING
    if one.gain is None:
        return TOO_BIG
    at = f"<small>at {one.size:,}</small>" if one.size != view.largest else ""
    known = f"<small>published {signed(one.published)}</small>" if one.published is not None else ""
    return f"<b>{signed(one.gain)}</b>{at}{known}"


# ── messages of 16 bits ──


def trap(view: StudyView, known: list[CompressionRow], bytes_of: Bytes) -> Iterator[str]:
    """What is left of a codec's gain where numbers have 16 bits already; nothing where no such messages are
    compressed."""
    precision = view.scenario.file.model.precision
    own = [one for one in known if not one.is_plain and one.options.message_dtype == "model"]
    if precision not in _WIDE or not own:
        return
    wide, called = _WIDE[precision], precision.upper()
    bits = {
        str(codec): codec.on(precision).bits_with_scales for one in own for codec in _codecs_of(one.options.compressed)
    }
    coded = [f"{float(size):.3g} with {codec} ({percent(float(size / wide))})" for codec, size in bits.items()]
    shares = {one.plan: sum(bytes_of[one.plan].values(), SentBytes()).share for one in own}
    parts = [f"{plan} sends {percent(float(share))}" for plan, share in shares.items() if share is not None]
    yield (
        f"The 16-bit trap: codecs work on 32-bit numbers, and a rate counts bits of these. Messages of {called} have "
        f"{wide} bits per value before anything is compressed; coded they have {listed(coded)}. Of what would be sent "
        f"uncompressed in {called}, {listed(parts)}."
    )
    if message := _against_wide(view, known, own, called):
        yield message


def _codecs_of(compressed: Compression | None) -> list[Codec]:
    codecs = [None if compressed is None else compressed.codec(side) for side in DIMENSIONS]
    return [codec for codec in codecs if codec is not None]


def _against_wide(view: StudyView, known: list[CompressionRow], own: list[CompressionRow], called: str) -> str:
    """How the same policies do on FP32 messages, and how the fastest of these does against no compression."""
    wider = [one for one in known if one.options.message_dtype != "model"]
    same = [
        f"{one.policy} {signed(one.gain)} on {called} and {signed(other.gain)} on {other.of}"
        for one in own
        for other in wider
        if one.policy == other.policy and one.gain is not None and other.gain is not None
    ]
    rates = {o.plan: rate(o) for o in view.ranked}
    fitting = [one.plan for one in wider if one.plan in rates]
    plain = next((one.plan for one in known if one.is_plain and one.of == called and one.plan in rates), None)
    message = f"The same policies gain: {'; '.join(same)}." if same else ""
    if not same or not fitting or plain is None:
        return message
    best = max(fitting, key=rates.__getitem__)
    ahead = rates[plain] / rates[best] - 1
    return (
        f"{message} But a gain is over a baseline of its own: {plain}, which compresses nothing, runs at "
        f"{number(rates[plain])} TFLOPS per {view.device}, {percent(abs(ahead))} {'above' if ahead > 0 else 'below'} "
        f"{best} ({number(rates[best])}), the fastest of the plans with FP32 messages."
    )
