"""Compressed messages: the gain in speed of each policy, and the bytes that it sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from simfrontier.answers.step import SIDES, SentBytes, Side, sent_by_dimension
from simfrontier.answers.study import schedule_of_case
from simfrontier.core.plan import DIMENSIONS, PLAIN, MegatronOptions
from simfrontier.interfaces.report.view import RATE, StudyView, comparable

_OF_CODECS: Final = ("compression", "compress_from", "compress_per_hop", "message_dtype")
SIDE_NAMES: Final[Mapping[Side, str]] = {
    "dp": "gradients (dp)",
    "tp": "inside layers (tp)",
    "pp": "between stages (pp)",
    "zero": "weights (zero)",
    "other": "other",
}
_SEEN: Final = Fraction(1, 1000)  # of all bytes, below which a kind of them gets no column


@dataclass(frozen=True, slots=True, kw_only=True)
class CompressedPlan:
    """A plan of the study and how its messages are compressed.

    `message_type`: element type of uncompressed messages. `codecs`: codec of the messages by parallel dimension;
    `relative_error`: the largest relative error of these codecs, None if nothing is compressed. `baseline`: the plan
    that sends the same messages uncompressed (the plan itself if it compresses nothing); `gain_devices`: the largest
    size at which both plans fit; `gain`: the rate at this size relative to the baseline's, minus 1; `published_gain`:
    the same ratio minus 1 from published rates.
    """

    plan: str
    policy: str
    message_type: str
    is_plain: bool
    per_hop: bool
    codecs: Mapping[str, str]
    relative_error: float | None
    baseline: str | None
    gain_devices: int | None
    gain: float | None
    published_gain: float | None


def compression_of(view: StudyView) -> dict[str, Any] | None:
    """Return the compression findings for plans with tensor and pipeline parallelism at the largest size: gains and
    bytes sent; None if no plan compresses or widens its messages.

    `gains`: gains of plans with the same message type, baseline and size; `least_bytes`: message size below which all
    these plans send uncompressed, None if the plans differ in it or compress every message; `sides`: the kinds of
    messages that get a column; `sent`: bytes by plan and kind of message, `sent_in_all`: bytes by plan in total.
    """
    options = _options(view)
    if all(each.compressed is None for each in options.values()):
        return None
    plans = compressed_plans(view)
    cases = {plan: view.cases[plan, view.largest] for plan in options}
    sent = {plan: sent_by_dimension(schedule_of_case(view.scenario, case)) for plan, case in cases.items()}
    in_all = {plan: sum(own.values(), SentBytes()) for plan, own in sent.items()}
    from_bytes = {options[one.plan].compress_from for one in plans if not one.is_plain}
    gains: dict[tuple[str, str | None, int | None], dict[str, float]] = {}
    for one in plans:
        if not one.is_plain and one.gain is not None:
            gains.setdefault((one.message_type, one.baseline, one.gain_devices), {})[one.plan] = one.gain
    return {
        "plans": plans,
        "gains": [
            {"message_type": key[0], "baseline": key[1], "devices": key[2], "gains": gains[key]} for key in gains
        ],
        "least_bytes": (from_bytes.pop() or None) if len(from_bytes) == 1 else None,
        "sides": [
            side
            for side in SIDES
            if any(own[side].num_bytes > _SEEN * in_all[plan].num_bytes for plan, own in sent.items())
        ],
        "sent": {plan: {side: _sent(each) for side, each in own.items()} for plan, own in sent.items()},
        "sent_in_all": {plan: _sent(each) for plan, each in in_all.items()},
    }


def compressed_plans(view: StudyView) -> tuple[CompressedPlan, ...]:
    """Return the study's plans with tensor and pipeline parallelism, in the scenario's order."""
    options = _options(view)
    return tuple(_plan(view, plan, own, options) for plan, own in options.items())


def _options(view: StudyView) -> dict[str, MegatronOptions]:
    return {
        plan: case.options
        for (plan, size), case in view.cases.items()
        if size == view.largest and isinstance(case.options, MegatronOptions)
    }


def _plan(view: StudyView, plan: str, options: MegatronOptions, plans: Mapping[str, MegatronOptions]) -> CompressedPlan:
    is_plain = options.compression == "none"
    compressed = None if is_plain else options.compressed
    per_hop = options.compress_per_hop and not is_plain
    baseline = plan if is_plain else _baseline(view, options, plans)
    devices, gain = _gain(view, plan, baseline)
    return CompressedPlan(
        plan=plan,
        policy=f"{options.compression}{' per hop' if per_hop else ''}",
        message_type=_type(view, options),
        is_plain=is_plain,
        per_hop=per_hop,
        codecs={side: str((compressed and compressed.codec(side)) or PLAIN) for side in DIMENSIONS},
        relative_error=None if compressed is None else compressed.relative_error,
        baseline=baseline,
        gain_devices=devices,
        gain=gain,
        published_gain=_published(view, plan, baseline),
    )


def _type(view: StudyView, options: MegatronOptions) -> str:
    own = view.scenario.file.model.precision if options.message_dtype == "model" else options.message_dtype
    return own.upper()


def _baseline(view: StudyView, options: MegatronOptions, plans: Mapping[str, MegatronOptions]) -> str | None:
    """Return the plan that sends the same messages uncompressed; of several, preferably the one whose other options are
    all equal."""
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
    """Return the largest size at which a plan and its baseline fit, and the plan's relative gain in rate at this
    size."""
    if baseline is not None:
        for row, base in reversed(list(zip(view.rows[plan], view.rows[baseline], strict=True))):
            if row["fits"] and base["fits"]:
                return row["devices"], row[RATE] / base[RATE] - 1
    return None, None


def _published(view: StudyView, plan: str, baseline: str | None) -> float | None:
    """Return the published gain, if the published figures are for this machine and contain both plans."""
    figures = comparable(view.scenario)
    ratios = {} if figures is None else figures.ratios
    return ratios[plan] / ratios[baseline] - 1 if plan != baseline and plan in ratios and baseline in ratios else None


def _sent(sent: SentBytes) -> dict[str, float | None]:
    """Return the bytes that all ranks send in a step, and their ratio to the bytes of the same messages in the model's
    own element type."""
    return {"num_bytes": float(sent.num_bytes), "share": None if sent.share is None else float(sent.share)}
