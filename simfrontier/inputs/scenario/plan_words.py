"""Plans in the words of launch scripts: `tp 2 pp 4 ep 8; zero3`."""

from __future__ import annotations

import re
from typing import Any, Final

from simfrontier.base.errors import InputError, nearest
from simfrontier.core.plan import FAMILIES
from simfrontier.inputs.scenario.plans import ALSO_CALLED

DEGREES: Final = {
    "tp": "tensor",
    "pp": "pipeline",
    "cp": "context",
    "ep": "expert",
    "etp": "expert_tensor",
    "vp": "chunks",
}
"""Keys of a grid by their usual abbreviations."""
ON_DATA: Final = "zero1"  # of a grid that names no plan on the data axes: Megatron-LM's distributed optimizer
_DEGREE: Final = re.compile(rf"\b({'|'.join(DEGREES)})(?=\d)", re.IGNORECASE)  # without a space before its number


def is_in_words(text: str) -> bool:
    """Return whether a text names plans in words, rather than by names separated by commas."""
    return ";" in text or any(word in DEGREES for word in _words(text))


def _words(text: str) -> list[str]:
    return re.split(r"[\s=,]+", _DEGREE.sub(r"\1 ", text.lower()).strip())


def plans_in_words(text: str) -> dict[str, dict[str, Any]]:
    """Return the tables of plans by name, from plans separated by `;`: each is a family of the ZeRO kind, a grid of
    degrees (`tp 2 pp 4 vp 2 ep 8`), or both (`tp 2 ep 8 zero3`). A grid without one has ZeRO-1 on its data axes; it
    cuts activations along the sequence where it has tensor parallelism, and layers among stages as evenly as they
    divide. Raises InputError for other words."""
    out: dict[str, dict[str, Any]] = {}
    for part in filter(None, (part.strip() for part in text.split(";"))):
        words = _words(part)
        name = re.sub(r"-(?=\d)", "", "-".join(words))
        if name in out:
            raise InputError(f"got {name!r} twice; allowed: every plan once")
        out[name] = _table(part, words)
    if not out:
        raise InputError(f"got {text!r}; allowed: plans separated by ;, e.g. zero3; tp 8 pp 2; tp 2 ep 8")
    return out


def _table(part: str, words: list[str]) -> dict[str, Any]:
    grid: dict[str, Any] = {}
    data = ""
    left = iter(words)
    for word in left:
        key = DEGREES.get(word, word if word in DEGREES.values() else "")
        family = ALSO_CALLED.get(word, word)
        if key:
            size = next(left, "")
            if not size.isdecimal() or not 0 < int(size) <= 2**20 or key in grid:
                raise InputError(f"plan {part!r}: {word} {size}; allowed: {word} once, with a number of ranks")
            grid[key] = int(size)
        elif family in FAMILIES and not data:
            data = family
        else:
            known = (*DEGREES, *DEGREES.values(), *FAMILIES)
            raise InputError(f"plan {part!r}: {word!r}; {nearest(word, known)}; other keys: --set plans.NAME.KEY=VALUE")
    if not grid:
        return {"family": data}
    table = {"family": "megatron", **grid, "data": {"family": data or ON_DATA}}
    if grid.get("pipeline", 1) > 1:
        table["layers"] = "even"
    if grid.get("chunks", 1) > 1:
        table["order"] = "interleaved"
    if grid.get("tensor", 1) > 1:
        table["sequence_parallel"] = True
    return table
