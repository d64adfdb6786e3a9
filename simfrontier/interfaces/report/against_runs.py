"""Tables of a job beside a published run: both rates, and the differences that explain their ratio."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any, Final

from simfrontier.answers.explain import AgainstPublished, ComparedJob
from simfrontier.interfaces.report.phrases import NOTHING, number, setting, three_digits
from simfrontier.interfaces.report.table import Table, with_total

NAMES: Final = ("name", "family", "stack")  # keys whose value says what it is of
MOST_SETTINGS: Final = 6  # of a cell
MOST_WHOLE: Final = 1e7  # numbers that are written in full


def rate_words(value: float | None) -> str:
    """Return a rate in three digits; a dash for None."""
    return NOTHING if value is None else three_digits(value)


def ratio_words(value: float | None) -> str:
    """Return a ratio: ×0.44; a dash for None."""
    return NOTHING if value is None else f"×{number(value)}"


def rates_table(it: AgainstPublished, device_word: str) -> Table:
    """Return the table of both rates per device, as predicted and as measured, and of their ratio."""
    mine, theirs = (_rates(job) for job in (it.yours, it.theirs))
    ratio = ("yours / theirs", ratio_words(it.predicted_ratio), "", ratio_words(it.measured_ratio))
    heads = (f"{it.unit} per {device_word}", "predicted", "90 % interval", "measured")
    rows = [("your plan", *mine), (f"published: {it.run}", *theirs)]
    return with_total(rows, ratio, "Your plan and the published run", heads)


def _rates(job: ComparedJob) -> tuple[str, str, str]:
    return rate_words(job.predicted), f"{rate_words(job.low)} to {rate_words(job.high)}", rate_words(job.measured)


def explained_table(it: AgainstPublished) -> Table:
    """Return the table of the differences between both jobs, with the factor of each."""
    rows = [
        (each.what, ratio_words(each.factor), settings_words(each.yours), settings_words(each.theirs))
        for each in it.differences
    ]
    total = ("all of these", ratio_words(prod(each.factor for each in it.differences)), "", "")
    heads, styles = ("difference", "factor", "yours", "theirs"), [*[""] * len(rows), "bold"]
    words = ("difference", "yours", "theirs")
    return Table("What explains the predicted ratio", heads, [*rows, total], words=words, styles=styles)


def settings_words(settings: Mapping[str, Any]) -> str:
    """Return settings of a job in words, by the last parts of their keys: megatron, tensor 8, data zero1."""
    parts = [_setting(key.split("."), value) for key, value in settings.items()]
    more = [f"{len(parts) - MOST_SETTINGS} more"] if len(parts) > MOST_SETTINGS else []
    return ", ".join([*parts[:MOST_SETTINGS], *more]) or "as by default"


def _setting(key: list[str], value: Any) -> str:
    names = key[1:-1] if key[-1] in NAMES else key[1:]
    if names[:1] in (["machine"], ["model"]):
        names = names[1:]
    if isinstance(value, float):
        value = int(value) if value.is_integer() and value < MOST_WHOLE else f"{value:.4g}"
    shown = setting(value)
    return " ".join([".".join(names[-2:]).replace("_", " "), shown]).strip()
