"""Made-up crops of images for Mugs."""

from __future__ import annotations

from typing import Any, Final

from simfrontier.core.program import Schedule

CROPS: Final = ("teacher/pixels", "global/pixels", "local/pixels")
INPUTS: Final = (*CROPS, "flags")
KINDS: Final = 4  # of images, which have a pattern each
WEAK: Final = 0.5  # of the images have their flag set, as with the default --prob of sail-sg/mugs' main.py


def crops(schedule: Schedule, seed: int, step: int, micro: int) -> dict[str, Any]:
    """Every image is of one of a few fixed patterns; a crop is the beginning of the pattern and noise, as patches."""
    import numpy as np

    numbers = np.random.default_rng([seed, 1, step, micro])
    shapes = {name: schedule.tensors[name].shape for name in INPUTS}
    (images,), patches = shapes["flags"], shapes["global/pixels"][1:]
    patterns = np.random.default_rng([seed, 2]).normal(size=(KINDS, *patches))
    kind = numbers.integers(0, KINDS, images)
    out: dict[str, Any] = {"flags": (numbers.random(images) < WEAK).astype(np.uint8)}
    for name in CROPS:
        rows, num_patches, _ = shapes[name]
        seen = patterns[np.repeat(kind, rows // images), :num_patches]
        out[name] = seen + numbers.normal(size=shapes[name])
    return out
