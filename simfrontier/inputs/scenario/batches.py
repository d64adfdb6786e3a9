"""The batch of a step: in words (`4M tokens`), and the one that all plans of a comparison share."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Final

from simfrontier.base.errors import InputError, shown

_BATCH: Final = re.compile(
    r"~?(?P<count>[1-9][\d,]*(?:\.\d+)?|0?\.\d+) ?(?P<scale>[kM]i?\b|thousand|million)?"
    r"(?: ?(?P<unit>tok|seq|sample|sentence)\w*)?",
    re.IGNORECASE,
)
BATCH: Final = 'sequences of a step, or its tokens, e.g. 512 or "4M tokens"'
USUAL_BATCH: Final = "usual"
USUAL: Final = ((1e9, 5e5), (5e9, 1e6), (math.inf, 4e6))
"""Tokens of a step by the most parameters: GPT-3's of 125M to 2.7B (arXiv 2005.14165, table 2.1), and those of Llama 2,
7B to 70B (arXiv 2307.09288, table 1)."""
MOST_USUAL: Final = 8  # micro-batches of a rank: more hardly change the rate (zero3 on 8 GCDs: 741 of 743 tokens/s)
PER_STAGE: Final = 4
NEAR: Final = 0.05  # "4M" tokens are 2^22 as well: 512 sequences of 8,192 are 4.9 % more than 4,000,000
FAR: Final = 0.25  # share of more sequences than wanted, beyond which a plan is refused rather than the batch moved


def batch_near(wanted: float, parts: Sequence[int]) -> int:
    """Return the number of sequences for a step of about `wanted` that every plan can divide into its part (the
    sequences of the fewest micro-batches of all its ranks): of those within `NEAR` that which divides by the highest
    power of two, else the nearest. Parts that would move it by more than `FAR` do not count: such a plan is refused
    where it is laid out."""
    step = 1
    for part in parts:
        joint = math.lcm(step, part)
        step = joint if abs(_nearest(wanted, joint) / wanted - 1.0) <= FAR else step
    near = range(math.ceil(wanted * (1 - NEAR) / step), math.floor(wanted * (1 + NEAR) / step) + 1)
    if not near:
        return _nearest(wanted, step)
    return step * max(near, key=lambda count: (count & -count, -abs(count * step - wanted)))


def usual_batch(parameters: float, sequence: int, plans: Sequence[tuple[int, int]]) -> int:
    """Return the number of sequences for a step of a model where nobody says it: the tokens that are usual for its
    size, of which no plan has more than `MOST_USUAL` micro-batches, or `PER_STAGE` a stage; the nearest number that all
    plans divide. `plans`: part and number of stages of each plan."""
    step = math.lcm(*(part for part, _ in plans))
    most = min(part * max(MOST_USUAL, PER_STAGE * stages) for part, stages in plans)
    wanted = min(usual_tokens(parameters) / sequence, most)
    return step if step > wanted else batch_near(wanted, [step])


def usual_tokens(parameters: float) -> float:
    """Return the tokens of a step as published for models of this size (`USUAL`)."""
    return next(tokens for most, tokens in USUAL if parameters <= most)


def _nearest(wanted: float, step: int) -> int:
    return step * max(1, round(wanted / step))


def batch_in_words(text: str) -> int | str:
    """Return the sequences of a step as a number, and its tokens (`4M tokens`) or `usual` as text, from a text such as
    `512 sequences`, `4M` or `2,097,152 tokens`. Raises InputError for another text."""
    if text == USUAL_BATCH:
        return text
    match = _BATCH.fullmatch(text.strip())
    if match is None:
        raise InputError(f"got {shown(text)}, allowed: {BATCH}")
    if tokens_of(text.strip()) is not None:
        return f"{match['count']}{(match['scale'] or '')[:1]} tokens"
    if match["scale"] or not match["count"].replace(",", "").isdecimal():
        raise InputError(f"got {shown(text)}, allowed: {BATCH}")
    return int(match["count"].replace(",", ""))


def tokens_of(text: str) -> float | None:
    """Return the tokens that the beginning of a text says (`4M tokens`, `4M`, `512k tok`); None if it says none."""
    match = _BATCH.match(text)
    if match is None or (match["unit"] or "tok" if match["scale"] else match["unit"]) not in ("tok", "Tok"):
        return None
    scale = {"k": 1e3, "t": 1e3, "m": 1e6, "": 1.0}[(match["scale"] or "")[:1].lower()]
    return float(match["count"].replace(",", "")) * scale
