"""Units of published values: conversion of step seconds to the unit in which a run was published."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Literal

from simfrontier.core.workload import GptShape, neox_flops

Measure = Literal[
    "step_s",
    "step_ms",
    "steps_per_s",
    "tokens_per_s_per_device",
    "tokens_per_s",
    "samples_per_s",
    "samples_per_s_per_device",
    "tflops_per_device",
    "percent_of_peak",
]
Flops = Literal["model", "causal", "recomputed", "hardware", "megatron", "neox_2021"]
PER_DEVICE: Final = {"tokens_per_s": "tokens_per_s_per_device", "samples_per_s": "samples_per_s_per_device"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """Unit of a published value. `flops`, for flop rates: the FLOP count, either the model's (`model`), or these
    with the half of attention that a causal mask leaves (`causal`), or with a full recomputed forward whether or not
    the run recomputes (`recomputed`), or with what the run recomputes (`hardware`), or that by the formula of
    Megatron-DeepSpeed and GPT-NeoX (`megatron`), which takes an MLP of 4h features and as many key heads as heads for
    every model, or by GPT-NeoX's of before September 2023 (`neox_2021`, see `step_flops`).
    `devices`: number of devices that one rate covers. `factor`: of the unit's prefix or time, e.g. 1e-3 for thousands
    of tokens. `layer`: the pass of one layer of experts, from its router to its output, whose time the value is; empty
    for a whole step.
    """

    measure: Measure
    flops: Flops = "model"
    devices: int = 1
    factor: float = 1.0
    layer: Literal["", "forward", "backward"] = ""

    @property
    def is_of_device(self) -> bool:
        """Return whether the value is of one device, however many have worked as it."""
        return self.measure.endswith("_per_device") or self.measure == "percent_of_peak"

    @property
    def rises_with_time(self) -> bool:
        """Return whether a slower step has a larger value in this unit."""
        return self.measure in ("step_s", "step_ms")


def step_flops(shape: GptShape, samples: float, flops: Flops, recomputes: bool) -> float:
    """Return the FLOPs of a step by arXiv 2104.04473 eq. 3, with the widths of this shape: matrix products of the
    layers, attention of every position to every other one (`causal`: to those before it), and the output head; the
    backward counts twice the forward, and a recomputed forward of the layers may be added.

    `neox_2021`: 6 FLOPs per parameter (embedding and head among them) and 60 per feature and position of a layer, for
    each token, whatever is recomputed: EleutherAI/gpt-neox, megatron/logging.py, `get_flops`, from May 2021 (da0a017b)
    to September 2023 (5f364017).
    """
    if flops == "megatron":
        return neox_flops(shape, samples, recomputes)
    if flops == "neox_2021":
        attention = 60 * shape.sequence * shape.hidden * shape.num_layers
        return samples * shape.sequence * (6.0 * shape.num_parameters + attention)
    return replace(shape, causal=flops == "causal").step_flops(
        samples, flops == "recomputed" or (flops == "hardware" and recomputes)
    )


def value_of(
    rate: Rate, step_s: float, shape: GptShape, samples: float, devices: int, recomputes: bool, peak_flops_per_s: float
) -> float:
    """Return the value, in the unit of the row, of a step of `samples` sequences on `devices` devices."""
    if rate.rises_with_time:
        return rate.factor * (1e3 * step_s if rate.measure == "step_ms" else step_s)
    flops = step_flops(shape, samples, rate.flops, recomputes)
    amount = {
        "steps_per_s": 1.0,
        "samples_per_s": samples,
        "tokens_per_s": samples * shape.sequence,
        "tflops": flops / 1e12,
        "percent_of_peak": 100.0 * flops / devices / peak_flops_per_s,
    }[rate.measure.removesuffix("_per_device")]
    per_device = rate.devices / devices if rate.measure.endswith("_per_device") else 1.0
    return rate.factor * amount * per_device / step_s
