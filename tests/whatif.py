"""Questions of what-ifs, and how far their answers are from simulated steps."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from simfrontier.answers.study import ScheduleCache, WhatIfs, simulated
from simfrontier.base.arrays import Floats
from simfrontier.inputs.scenario import Scenario, load_scenario, with_numbers

LAWS = ("ring", "ring_ll", "tree", "direct")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One plan of a scenario, with settings, at a size."""

    scenario: str
    plan: str
    devices: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    def loaded(self) -> Scenario:
        return load_scenario(f"scenarios/{self.scenario}.toml", self.settings)


SMALL_PIPELINE = {"model.num_layers": 16, "plans.*.pipeline": 8, "training.grad_accum": 12}
GPT_3 = {"model.name": "gpt3-175b", "model.num_layers": 24, "plans.*.pipeline": 4, "training.grad_accum": 8}
QUESTIONS: Mapping[str, Asked] = {
    "zero1": Asked(scenario="frontier-20b", plan="zero1", devices=64),
    "zero2": Asked(scenario="frontier-20b", plan="zero2", devices=128),
    "zero3": Asked(scenario="frontier-20b", plan="zero3", devices=384),
    "zero3, one node": Asked(scenario="frontier-20b", plan="zero3", devices=8),
    "zero3, 10B": Asked(scenario="frontier-10b", plan="zero3", devices=64),
    "hsdp": Asked(scenario="frontier-20b", plan="hsdp", devices=128),
    "zeropp": Asked(scenario="frontier-20b", plan="zeropp", devices=128),
    "zero-topo": Asked(scenario="frontier-20b", plan="zero-topo", devices=384),
    "zero3 on lumi-g": Asked(scenario="frontier-20b", plan="zero3", devices=64, settings={"machine.name": "lumi-g"}),
    "zero3 on perlmutter": Asked(
        scenario="frontier-20b", plan="zero3", devices=64, settings={"machine.name": "perlmutter-80gb"}
    ),
    "hsdp on perlmutter": Asked(
        scenario="frontier-20b", plan="hsdp", devices=64, settings={"machine.name": "perlmutter-80gb"}
    ),
    "zero3 on eos": Asked(scenario="frontier-20b", plan="zero3", devices=64, settings={"machine.name": "eos"}),
    "zeropp on dgx-2": Asked(scenario="zeropp-v100", plan="zeropp", devices=384),
    "ddp, toy": Asked(scenario="toy", plan="ddp", devices=16),
    "zero-topo, toy": Asked(scenario="toy", plan="zero-topo", devices=16),
    "lattice, toy": Asked(scenario="toy", plan="my-own", devices=16),
    "megatron": Asked(
        scenario="frontier-20b",
        plan="zero3",
        devices=64,
        settings={"plans.zero3": {"family": "megatron", "tensor": 4}},
    ),
    "axonn": Asked(
        scenario="frontier-20b",
        plan="zero3",
        devices=64,
        settings={"plans.zero3": {"family": "axonn", "x": 2, "y": 2, "z": 2}},
    ),
    "softmax": Asked(scenario="softmax", plan="fused", devices=8),
    "pipeline, 1F1B": Asked(scenario="frontier-1t-3d", plan="1f1b", devices=128, settings=SMALL_PIPELINE),
    "pipeline, GPipe": Asked(scenario="frontier-1t-3d", plan="gpipe", devices=128, settings=SMALL_PIPELINE),
    "pipeline, sequence": Asked(
        scenario="frontier-1t-3d", plan="sequence-parallel", devices=128, settings=SMALL_PIPELINE
    ),
    "pipeline, GPT-3": Asked(scenario="frontier-1t-3d", plan="1f1b", devices=64, settings=GPT_3),
    "pipeline, interleaved": Asked(
        scenario="frontier-1t-3d",
        plan="1f1b",
        devices=64,
        settings={**GPT_3, "plans.1f1b.order": "interleaved", "plans.1f1b.chunks": 2},
    ),
}


def drawn(scenario: Scenario, num: int, rng: np.random.Generator) -> dict[str, Floats]:
    """Variations in which every number differs at once: rates from 0.35 to 1.3 times what they are, start-up times from
    a half to three times, even in their logarithms."""
    machine, library = scenario.machine, scenario.library
    axes: dict[str, Floats] = {}

    def vary(key: str, base: float, low: float, high: float, most: float = np.inf) -> None:
        if base:
            axes[key] = np.minimum(base * np.exp(rng.uniform(np.log(low), np.log(high), num)), most)

    for name, link in machine.link_classes.items():
        if name != "uplink":  # which follows from the others
            vary(f"machine.overrides.link_classes.{name}.bytes_per_s", link.bytes_per_s, 0.35, 1.3)
    device = machine.device
    vary("machine.overrides.host.hook_s", machine.host.hook_s, 0.5, 3.0)
    vary("machine.overrides.device.hbm_share", device.hbm_share, 0.6, 1.2, 1.0)
    vary("machine.overrides.device.kernel_gap_s", device.kernel_gap_s, 0.5, 2.0)
    most = device.peak_flops_per_s
    vary("machine.overrides.device.matmul_flops_per_s", device.matmul_flops_per_s, 0.5, 1.2, most)
    for name in LAWS:
        law = getattr(library, name)
        if law is not None:
            vary(f"library.overrides.{name}.hop_between_nodes_s", law.hop_between_nodes_s, 0.5, 3.0)
            vary(f"library.overrides.{name}.base_s", law.base_s, 0.5, 3.0)
    return axes


@dataclass(frozen=True, kw_only=True)
class Compared:
    """Answers to one question, and what steps of some of its variations take: relative errors, and where the library
    takes another algorithm; CPU seconds of the answers."""

    errors: Floats
    is_unlike: np.ndarray[Any, np.dtype[np.bool_]]
    answered_s: float


def compared(asked: Asked, num: int, count: int, seed: int) -> Compared:
    """Answer `num` variations and simulate `count` of them."""
    scenario, rng, cache = asked.loaded(), np.random.default_rng(seed), ScheduleCache()
    axes = drawn(scenario, num, rng)
    what_ifs = WhatIfs.of(scenario, asked.plan, asked.devices, schedule_cache=cache)
    began = time.process_time()
    answers = what_ifs.step_s(axes)
    answered_s = time.process_time() - began
    chosen = rng.permutation(num)[:count]
    exact = np.array([_exact_s(what_ifs, axes, number) for number in chosen.tolist()])
    errors = answers.step_s[chosen] / exact - 1.0
    return Compared(errors=errors, is_unlike=answers.is_unlike[chosen], answered_s=answered_s)


def _exact_s(what_ifs: WhatIfs, axes: Mapping[str, Floats], number: int) -> float:
    changed = with_numbers(what_ifs.scenario, {key: float(values[number]) for key, values in axes.items()})
    return simulated(changed, what_ifs.built, "flow").step_s
