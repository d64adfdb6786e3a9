"""Terms of pages with their meanings, as in the glossary of the documentation (docs/glossary.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TERMS: Final[Mapping[str, tuple[str, str]]] = {
    "mfu": (
        "MFU",
        "model FLOPs utilisation: operations of the model's matrix products, each counted once (recomputation is not), "
        "over the nominal peak of all devices",
    ),
    "tflops": (
        "model TFLOPS",
        "10¹² operations of the model's matrix products per second and device, each counted once (without "
        "recomputation)",
    ),
    "interval": (
        "90 % interval",
        "nine in ten measured values of published runs that no fit had seen lie in it; wider than the range of 90 % of "
        "the samples",
    ),
    "samples": (
        "90 % of the samples",
        "from the 5 % to the 95 % quantile of the simulated samples, which vary only the inputs whose errors are known",
    ),
    "nominal": ("nominal", "without variation between devices and without errors of models"),
    "exposed": (
        "exposed communication",
        "time in which a rank runs no kernel on its compute stream: it is in a collective, waits for one or for its "
        "host, encodes, or is idle",
    ),
    "bound": ("lower bound", "time below which no simulated step can be, from the fullest lane and the fullest link"),
    "bubble": ("pipeline bubble", "time in which a pipeline stage waits for another stage"),
    "critical": ("critical rank", "the rank that ends the step last"),
    "grid": (
        "grid",
        "ranks along each kind of parallelism: tp tensor, pp pipeline stages, cp context, ep experts, dp data; vp: "
        "runs of layers per stage",
    ),
    "stack": (
        "stack",
        "training engine and its kernels: attention, fusion, time of the host, memory that they reserve, default "
        "options",
    ),
    "efficiency": (
        "scaling efficiency",
        "TFLOPS per device relative to those of the plan's smallest size at which it fits",
    ),
    "memory": (
        "peak memory",
        "largest sum of the tensors that live at once on a rank of the fullest stage; fragmentation is not counted",
    ),
    "gcd": ("GCD", "half of an MI250X, one device"),
}
"""Names and meanings of terms, by the end of their anchors in a page."""

_KEYS: Final = {name.lower(): key for key, (name, _) in TERMS.items()}
_ALSO: Final = {
    **{"90 % of samples": "samples", "bubble": "bubble", "nominal step": "nominal", "peak": "memory"},
    **{"memory, gb": "memory", "tflops per gcd": "tflops", "tflops per device": "tflops"},
}


def term_key(text: str) -> str:
    """Return the key of the term that a text is; empty if it is none."""
    return (_KEYS | _ALSO).get(" ".join(text.lower().split()), "")
