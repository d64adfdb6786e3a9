"""How far answers to what-ifs are from simulated steps, family by family, and how many there are in a CPU second.

    python -m tests.whatif [--count 22] [--seed 1] [--only NAME]

Each question has `--asked` variations, of which `--count` are simulated afterwards. In the first questions all numbers
differ at once, in others those by which the library chooses its algorithms, or one number alone, in order; those of
numbers that only contention feels are to be refused.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from simfrontier.arrays import Floats
from simfrontier.collectives.tuning import WAYS
from simfrontier.errors import InputError
from simfrontier.scenario import Scenario, load_scenario, with_numbers
from simfrontier.study import Answers, ScheduleCache, WhatIfs, simulated

LAWS = ("ring", "ring_ll", "tree", "direct")


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One plan of a scenario, with settings, at a size. `keys`: the numbers that vary (empty: as `drawn` says); one
    alone takes its values in order."""

    scenario: str
    plan: str
    devices: int
    settings: Mapping[str, Any] = field(default_factory=dict)
    keys: tuple[str, ...] = ()

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
NIC = "machine.overrides.link_classes.nic.bytes_per_s"
HOP = "library.overrides.ring.hop_between_nodes_s"
TUNING = tuple(
    f"library.overrides.tuning.{key}"
    for key in (
        *("bus_bytes_per_s", "host_hop_s", "simple_weight", "all_reduce_factor"),
        *(f"ways.{way}.{key}" for way in WAYS for key in ("base_s", "hop_between_nodes_s", "rate_share")),
    )
)
PERLMUTTER, EOS = {"machine.name": "perlmutter-80gb"}, {"machine.name": "eos"}
IN_PART: Mapping[str, Asked] = {
    "tuning, zero1": Asked(scenario="frontier-20b", plan="zero1", devices=64, keys=TUNING),
    "tuning, zeropp": Asked(scenario="frontier-20b", plan="zeropp", devices=64, keys=TUNING),
    "tuning, perlmutter": Asked(scenario="frontier-20b", plan="hsdp", devices=64, settings=PERLMUTTER, keys=TUNING),
    "nic, zero3": Asked(scenario="frontier-20b", plan="zero3", devices=384, keys=(NIC,)),
    "nic, zeropp": Asked(scenario="frontier-20b", plan="zeropp", devices=128, keys=(NIC,)),
    "nic, zero3 on eos": Asked(scenario="frontier-20b", plan="zero3", devices=64, settings=EOS, keys=(NIC,)),
    "nic, pipeline": Asked(scenario="frontier-1t-3d", plan="1f1b", devices=128, settings=SMALL_PIPELINE, keys=(NIC,)),
    "hop, zero-topo": Asked(scenario="frontier-20b", plan="zero-topo", devices=384, keys=(HOP,)),
    "hop, zero3 on eos": Asked(scenario="frontier-20b", plan="zero3", devices=64, settings=EOS, keys=(HOP,)),
    "xgmi1, axonn": replace(QUESTIONS["axonn"], keys=("machine.overrides.link_classes.xgmi1.bytes_per_s",)),
    "xgmi2, hsdp": replace(QUESTIONS["hsdp"], keys=("machine.overrides.link_classes.xgmi2.bytes_per_s",)),
    "kernel gap, toy": Asked(
        scenario="toy", plan="zero-topo", devices=16, keys=("machine.overrides.device.kernel_gap_s",)
    ),
    "units of channels": Asked(
        scenario="frontier-20b", plan="zeropp", devices=64, keys=("library.overrides.units_per_channel",)
    ),
    "channels": Asked(scenario="frontier-20b", plan="zeropp", devices=64, keys=("library.overrides.num_channels",)),
    "compute units": Asked(
        scenario="frontier-20b", plan="zero3", devices=64, keys=("machine.overrides.device.num_compute_units",)
    ),
}


def varied(asked: Asked, scenario: Scenario, num: int, rng: np.random.Generator) -> dict[str, Floats]:
    """The variations of a question: numbers from 0.35 to 3 times what they are; counts are whole."""
    if not asked.keys:
        return drawn(scenario, num, rng)
    known = {f"machine.overrides.{each.key}": each.value for each in scenario.machine.provenance()}
    known |= {f"library.overrides.{each.key}": each.value for each in scenario.library.provenance()}
    if len(asked.keys) == 1:
        key = asked.keys[0]
        values = known[key] * np.linspace(0.35, 3.0 if key.endswith("_s") and "_per_" not in key else 1.3, num)
        return {key: np.rint(values) if ".num_" in key else values}
    return {key: known[key] * np.exp(rng.uniform(np.log(0.5), np.log(2.0), num)) for key in asked.keys}


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
    takes another algorithm; CPU seconds of the answers, and of one simulated step."""

    answers: Answers
    as_it_is_s: float
    errors: Floats
    is_unlike: np.ndarray[Any, np.dtype[np.bool_]]
    answered_s: float
    exact_s: float


def compared(asked: Asked, num: int, count: int, seed: int) -> Compared:
    """Answers `num` variations and simulates `count` of them. Raises InputError."""
    scenario, rng, cache = asked.loaded(), np.random.default_rng(seed), ScheduleCache()
    axes = varied(asked, scenario, num, rng)
    what_ifs = WhatIfs.of(scenario, asked.plan, asked.devices, schedule_cache=cache)
    began = time.process_time()
    answers = what_ifs.step_s(axes)
    answered_s = time.process_time() - began
    chosen = rng.permutation(num)[:count]
    began = time.process_time()
    exact = np.array([_exact_s(what_ifs, axes, number) for number in chosen.tolist()])
    exact_s = (time.process_time() - began) / max(1, len(chosen))
    return Compared(
        answers=answers,
        as_it_is_s=what_ifs.step.step_s,
        errors=answers.step_s[chosen] / exact - 1.0,
        is_unlike=answers.is_unlike[chosen],
        answered_s=answered_s,
        exact_s=exact_s,
    )


def _exact_s(what_ifs: WhatIfs, axes: Mapping[str, Floats], number: int) -> float:
    changed = with_numbers(what_ifs.scenario, {key: float(values[number]) for key, values in axes.items()})
    return simulated(changed, what_ifs.built, "flow").step_s


def lines(num: int, count: int, seed: int, only: str) -> Iterator[str]:
    """The table, a line for each question as it is answered, and what holds for all."""
    yield f"{'question':22s} {'from':>9s} {'to':>6s} {'alike':>6s} {'mean':>6s} {'most':>6s} " + (
        f"{'all':>6s} {'a second':>9s} {'exact':>6s}"
    )
    for questions in (QUESTIONS, IN_PART):
        every: list[Compared] = []
        num_refused = 0
        for name, asked in questions.items():
            if only not in name:
                continue
            try:
                every.append(compared(asked, num, count, seed))
            except InputError as error:
                num_refused += 1
                yield f"{name:22s} refused: {error}"
            else:
                yield _line(name, every[-1], num)
        if every:
            yield _all(every)
        if num_refused:
            yield f"{num_refused} questions refused"


def _line(name: str, one: Compared, num: int) -> str:
    sizes, ratio = np.abs(one.errors), one.answers.step_s / one.as_it_is_s
    alike = sizes[~one.is_unlike]
    return (
        f"{name:22s} {ratio.min() - 1:+9.0%} {ratio.max() - 1:+6.0%} {1.0 - one.is_unlike.mean():6.0%} "
        f"{_percent(alike.mean() if len(alike) else None)} {_percent(alike.max() if len(alike) else None)} "
        f"{_percent(sizes.max())} {num / one.answered_s:9.0f} {1 / one.exact_s:6.1f}"
    )


def _all(every: Sequence[Compared]) -> str:
    sizes = np.abs(np.concatenate([one.errors for one in every]))
    alike = sizes[~np.concatenate([one.is_unlike for one in every])]
    if not len(alike):
        return f"{len(sizes)} variations, all by other algorithms; off by at most {sizes.max():.2%}"
    return (
        f"{len(sizes)} variations, {len(alike) / len(sizes):.0%} by the same algorithms: off by {alike.mean():.2%} on "
        f"average, 95 % by at most {np.percentile(alike, 95):.2%}, all by at most {alike.max():.2%}; of all "
        f"{sizes.mean():.2%}, {np.percentile(sizes, 95):.2%}, {sizes.max():.2%}"
    )


def _percent(share: float | None) -> str:
    return f"{'-':>6s}" if share is None else f"{share:6.2%}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=22, help="variations of each question that are simulated")
    parser.add_argument("--asked", type=int, default=1000, help="variations of each question")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="questions whose name has this in it")
    given = parser.parse_args()
    for line in lines(given.asked, given.count, given.seed, given.only):
        sys.stdout.write(line + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
