"""Flags that a text turns off: `fsdp 0`, `no offload`, `sequence parallel: no`, `vp n/a`."""

from __future__ import annotations

import re
from typing import Final

# What texts of plans turn on by its name; of two that begin alike the longer one stands first.
_FLAGS: Final = (
    r"(?:Megatron[- _]?)?FSDP(?:[12]\b)?",
    *("HSDP", "FULL_SHARD", "HYBRID_SHARD", "SHARD_GRAD_OP", "fully_shard", "MiCS", "DDP"),
    *(r"ZeRO\+\+", r"ZeRO-?Infinity", r"ZeRO(?:[-_ ]*stage)?(?:[-_ =]*[1-3])?[-_ ]*", "qwZ", "hpZ", "qgZ"),
    r"(?:use[-_ ])?dist(?:ributed)?[-_ ]?opt(?:imi[sz]er)?",
    r"optimi[sz]er[-_ ](?:state[-_ ])?shard(?:s|ing)",
    *(r"async(?:hronous)?[-_ ]?TP", r"(?:TP|tensor[-_ ]parallel)[-_ ](?:comm\w*[-_ ]?)?overlap", r"TP[-_ ]comm"),
    *(rf"{axis}[-_ ]parallel(?:ism)?" for axis in ("sequence", "context", "expert", "tensor", "model", "pipeline")),
    *(
        "SP",
        "CP",
        "EP",
        "TP",
        "MP",
        "PP",
        r"interleav(?:ed|ing|e)?(?:[-_ ](?:1F1B|pipeline|schedule))?",
        "zbv",
        "looped",
    ),
    *(r"(?:CPU|optimi[sz]er|activation|parameter|NVMe)?[-_ ]?off-?load(?:ing)?", "NVMe", "QLoRA", "LoRA"),
    *(r"(?:torch[-_. ])?compile", r"Float ?8", "fp8", r"flash(?:[-_ ]?att(?:entio)?n)?"),
)
_DEGREES: Final = (  # of which 1 is none, too
    *(r"dp[-_]shard(?:[-_]degree)?", r"data[-_]parallel[-_]shard(?:[-_]degree)?", "Ulysses"),
    *("vpp?", r"virtual[-_ ](?:pipeline[-_ ]?)?(?:parallel\w*|stages?|size|degree)?"),
)
_DEGREE: Final = rf"(?:{'|'.join(_DEGREES)})"
_FLAG: Final = rf"(?<![a-z])(?:{'|'.join(_FLAGS)}|{_DEGREE})(?![a-z])"
_END: Final = r"(?=\s*(?:[,;)+|]|$))"  # of a part of a text
_OFF: Final = (
    r"(?:[-_]?0+(?:\.0+)?(?![\d.-])|(?:off|none|false|disabled|unused|not (?:used|enabled)|n/?a)(?!\w)"
    rf"|no(?:{_END}|(?=\s+{_FLAG}[\s=:]*[1-9]))|[-–—✗]{_END}|(?<=[=:])\s*{_END})"
)
_SIZE: Final = r"(?:[-_ ](?:size|degree))"
_BEHIND: Final = re.compile(
    rf"{_FLAG}{_SIZE}?[\s=:(]{{0,4}}(?:(?:is|turned|switched|set to) )?{_OFF}"
    rf"|(?<![a-z])(?:{_DEGREE}{_SIZE}?|{_FLAG}{_SIZE})[\s=:(]{{0,4}}1(?![\d.])",
    re.IGNORECASE,
)
_BEFORE: Final = re.compile(
    rf"(?<!\w)(?<!\w-)(?:no|non|without|w/o|not|disabled?)[\s-]+{_FLAG}(?:\s*(?:/|\bn?or\b|\band\b)\s*{_FLAG})*(?![\s=:]*[1-9])",
    re.IGNORECASE,
)


def without_off(text: str) -> tuple[str, str]:
    """Split a text into what it says beside the flags that it turns off, and these with their words."""
    off: list[str] = []

    def taken(match: re.Match[str]) -> str:
        off.append(match[0])
        return " "

    return _BEHIND.sub(taken, _BEFORE.sub(taken, " ".join(text.split()))), "; ".join(off)
