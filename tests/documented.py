"""Figures that pages of the documentation quote, each with the command that makes it: what it is read from, and the
sentence that it stands in."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import Formatter
from typing import Any

NUMBER = r"([+−]?\d[\d,]*(?:\.\d+)?)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Results:
    """What a command has left: its folder, and what it printed."""

    folder: Path
    out: str


Read = Callable[[Results], Mapping[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Quoted:
    """Sentences of a page whose figures come out of one command. A field such as `{tflops[zero3]:.1f}` is a value that
    `read` finds in its results, and `{}` a figure of another command; where lines end in the page does not matter.
    `page`: below the clone."""

    page: str
    command: str
    read: Read
    sentences: tuple[str, ...]


class AnotherFigure(Exception):
    """A page says something else than the command gives, or does not have the sentence."""


def sentence_in(text: str, sentence: str) -> re.Match[str]:
    """Where a page has the sentence, with any figures. Raises AnotherFigure where it is not there exactly once."""
    pattern = "".join(
        re.sub(r"(\\ )+", r"\\s+", re.escape(words)) + (NUMBER if field is not None else "")
        for words, field, *_ in Formatter().parse(sentence)
    )
    found = list(re.finditer(pattern, text))
    if len(found) != 1:
        raise AnotherFigure(f"found {len(found)} times, not once: {sentence}")
    return found[0]


def said_again(text: str, sentence: str, values: Mapping[str, Any]) -> str:
    """The text of a page with the figures of a sentence as the values say. Raises AnotherFigure as `sentence_in`."""
    found, formatter = sentence_in(text, sentence), Formatter()
    fields = [(field, form) for _, field, form, _ in formatter.parse(sentence) if field is not None]
    for place, (field, form) in reversed(list(enumerate(fields, 1))):
        if field:
            number = format(formatter.get_field(field, (), values)[0], form or "").replace("-", "−")
            text = text[: found.start(place)] + number + text[found.end(place) :]
    return text


# ── what the results of a command say, by names ──


def study(results: Results) -> dict[str, Any]:
    """Of `run` and `compare`: medians and 90 % intervals (`_low`, `_high`) of every plan at its largest size, and the
    step without variation (`nominal`). `rate`: tokens per second and device, `mfu` and `hfu` in percent, `neox`:
    GPT-NeoX's TFLOPS. Predictions of what was published."""
    findings = findings_of(results)
    headline = findings["headline"]
    largest = {plan: rows[-1] for plan, rows in findings["rows"].items() if rows[-1]["fits"]}
    return {
        **_rates("rate", largest, dict.fromkeys(largest, 1.0)),
        **_rates("neox", largest, {plan: _per_token(row, "neox_tflops_per_device") for plan, row in largest.items()}),
        "tflops": {plan: row["tflops_per_device"] for plan, row in largest.items()},
        "mfu": {plan: 100 * row["mfu"] for plan, row in largest.items()},
        "hfu": {plan: 100 * row["hfu"] for plan, row in largest.items() if row["hfu"]},
        "step": {plan: row["step_time_s"] for plan, row in largest.items()},
        "nominal_step": {plan: row["step_time_nominal_s"] for plan, row in largest.items()},
        "compute": {plan: row["compute_time_s"] for plan, row in largest.items()},
        "peak_gb": {plan: rows[-1]["peak_memory_bytes"] / 1e9 for plan, rows in findings["rows"].items()},
        "best": _best(headline),
        **_published(findings["published"]),
        "varied": _varied(findings["sensitivity"], findings["published"]),
    }


def _per_token(row: Mapping[str, Any], column: str) -> float:
    """How much of a column goes with a token per second and device."""
    return float(row[column] or "nan") / float(row["tokens_per_s_per_device"])


def _rates(
    name: str, largest: Mapping[str, Mapping[str, Any]], per_token: Mapping[str, float]
) -> dict[str, dict[str, float]]:
    """Median, 90 % interval and nominal value of what goes with the tokens per second of plans."""
    ends = {"": "", "_nominal": "_nominal", "_low": "_p05", "_high": "_p95"}
    columns = {f"{name}{end}": f"tokens_per_s_per_device{suffix}" for end, suffix in ends.items()}
    return {
        end: {plan: per_token[plan] * row[column] for plan, row in largest.items() if row[column] is not None}
        for end, column in columns.items()
    }


def _best(headline: Mapping[str, Any]) -> dict[str, float]:
    """The 90 % interval of the fastest plan's rate; in percent, its lead over the next, and the lead from which on this
    is sure."""
    ahead = headline["ahead"]
    made = dict(zip(("low", "high"), headline["interval"] or (), strict=False))
    if ahead:
        made |= {"sure_lead": 100 * ahead[0]["sure_lead"]}
        made |= {"lead": 100 * (ahead[0]["ratio"]["median"] - 1), "faster": 100 * ahead[0]["faster_share"]}
    return made


def _published(published: Mapping[str, Any] | None) -> dict[str, dict[str | int, float]]:
    """Predictions of published ratios to the first plan and shares of the peak (in percent), by plan and by size: the
    median, its 90 % interval (`_low`, `_high`), the range over unknown settings (`_least`, `_most`), and how far from
    the published value it is in percent (`_off`)."""
    made: dict[str, dict[str | int, float]] = {}
    for kind, unit in () if published is None else (("ratio", 1), ("share", 100)):
        for one in published[f"{kind}s"]:
            low, high = one["sampled"] or (None, None)
            least, most = one["unknown"] or (None, None)
            predicted, off = one["predicted"], 100 * abs(one["predicted"] / one["published"] - 1)
            values = {"": predicted, "_low": low, "_high": high, "_least": least, "_most": most}
            found = {kind + part: unit * value for part, value in values.items() if value is not None}
            for name, value in (found | {f"{kind}_off": off}).items():
                made.setdefault(name, {}).update({one["plan"]: value, one["devices"]: value})
    return made


def _varied(sensitivity: Mapping[str, Any] | None, published: Mapping[str, Any] | None) -> dict[str, Any]:
    """Ratios to the first plan by the words of each variation (`default`: of none) and plan, at the first size; shares
    of the peak in percent, as they are published, by `at SIZE`, words and plan. Medians."""
    if sensitivity is None or published is None:
        return {}
    made: dict[str, Any] = {}
    percent = 100 * 1e12 / published["peak_flops_per_s"]
    for size in sensitivity["sizes"]:
        at = made[f"at {size['devices']}"] = {}
        for one in (size["default"], *size["varied"]):
            words = f"{one['setting']} = {one['value']}".replace("\u00a0", " ") if one["setting"] else "default"
            made.setdefault(words, one["compared"])
            at[words] = {plan: None if rate is None else percent * rate for plan, rate in one["tflops"].items()}
    return made


def searched(results: Results) -> dict[str, Any]:
    """Of `tune --json`: how many plans there were and were simulated, the best plan, and the scenario's own."""
    said = json.loads(results.out)
    best = said["plans"][0]
    return {
        "total": said["total"],
        "simulated": said["simulated"],
        "best_s": best["step_time_s"],
        "best_gb": best["peak_memory_bytes"] / 1e9,
        "own_s": {one["plan"]: one["step_time_s"] for one in said["own"]},
    }


def findings_of(results: Results) -> dict[str, Any]:
    """What a study says, as values."""
    made: dict[str, Any] = json.loads((results.folder / "findings.json").read_text(encoding="utf-8"))
    return made
