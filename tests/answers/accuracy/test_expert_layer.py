"""One layer of experts on 8 H100 against the baselines of Megatron-LM's performance test of it.

NVIDIA/Megatron-LM@d98e8a6, tests/functional_tests/test_cases/common/moe_perf: forward and backward in ms of the layer
from its router to its output, balanced, by three dispatchers. Its configuration passes neither gated experts nor the
shared expert on, which its cases name; the second model chooses 8 experts in 4 of 8 groups. One number is fitted to
these times: the rate of products in FP8 with a scale for every block (stack megatron-core-blocks).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from simfrontier.answers.study.schedule_cache import ScheduleCache
from simfrontier.core.cost import Prices
from simfrontier.core.program import Op
from simfrontier.inputs.scenario import scenario_of

SHAPES: dict[str, dict[str, int]] = {
    "mixtral": {"hidden": 4096, "ffn_hidden": 14336, "experts": 8, "experts_per_token": 2},
    "deepseek": {
        **{"hidden": 7168, "ffn_hidden": 2048, "experts": 32, "experts_per_token": 8},
        **{"expert_groups": 8, "groups_per_token": 4},
    },
}
BF16 = {
    ("mixtral", "all_to_all"): (4.3269, 7.6843),
    ("mixtral", "deepep"): (4.6356, 7.8544),
    ("mixtral", "hybridep"): (4.3426, 7.7408),
    ("deepseek", "all_to_all"): (7.1192, 10.4827),
    ("deepseek", "deepep"): (5.6817, 9.0551),
    ("deepseek", "hybridep"): (5.3908, 8.7950),
}
FP8 = {
    ("mixtral", "all_to_all"): (3.7876, 6.6182),
    ("mixtral", "deepep"): (4.1012, 6.8272),
    ("mixtral", "hybridep"): (3.7007, 6.5717),
    ("deepseek", "all_to_all"): (7.6093, 10.1265),
    ("deepseek", "deepep"): (6.0348, 8.6021),
    ("deepseek", "hybridep"): (5.1429, 7.6875),
}


@cache
def layer_ms(model: str, dispatch: str, fp8: bool = False, skew: float = 1.0) -> tuple[float, float]:
    """Times of the layer's forward and backward, one op after the other."""
    document: dict[str, Any] = {
        "name": "layer",
        "title": "one layer of experts",
        "stack": "megatron-core-blocks" if fp8 else "megatron-core",
        "machine": {"name": "h100-node"},
        "model": {
            **{"name": model, "num_layers": 1, "heads": 32, "vocabulary": 512, "sequence": 4096, "precision": "bf16"},
            **{"residual": "sequential", "biases": False, "attention": "fused", "checkpointing": "none"},
            **{"expert_skew": skew, **SHAPES[model]},
            **({"linear_precision": "fp8"} if fp8 else {}),
        },
        "run": {"devices": [8]},
        "training": {"micro_batch": 1},
        "plans": {"ep": {"family": "megatron", "expert": 8, "dispatch": dispatch}},
    }
    scenario = scenario_of(document, "layer.toml")
    case, schedule = scenario.of("ep", 8), ScheduleCache().get(scenario, "ep", 8).schedule
    prices, (role,) = Prices(case.machine, case.library, 8), schedule.roles
    (forward,) = (call for call in role.calls if call.label == "forward" and _ends(call.ops, "router", "combine"))
    (backward,) = (call for call in role.calls if _ends(call.ops, "combine.backward", "ln2.sum"))
    there, back = _ends(forward.ops, "router", "combine"), _ends(backward.ops, "combine.backward", "ln2.sum")
    return tuple(sum(prices.seconds(op, schedule) for op in ops) * 1e3 for ops in (there, back))  # type: ignore[return-value]


def _ends(ops: tuple[Op, ...], first: str, last: str) -> tuple[Op, ...]:
    """The ops of the compute lane from one to another; () without them."""
    on_lane = [op for op in ops if op.lane == "compute"]
    names = [op.name for op in on_lane]
    return tuple(on_lane[names.index(first) : names.index(last) + 1]) if {first, last} <= {*names} else ()


def errors(measured: dict[tuple[str, str], tuple[float, float]], fp8: bool) -> list[float]:
    return [
        predicted / value - 1.0
        for (model, dispatch), both in measured.items()
        for predicted, value in zip(layer_ms(model, dispatch, fp8), both, strict=True)
    ]


def test_layers_in_bf16_take_as_long_as_measured() -> None:
    found = [abs(error) for error in errors(BF16, fp8=False)]
    assert sum(found) / len(found) < 0.05
    assert max(found) < 0.13


def test_layers_in_fp8_take_as_long_as_measured() -> None:
    found = [abs(error) for error in errors(FP8, fp8=True)]
    assert sum(found) / len(found) < 0.05
    assert max(found) < 0.09


@pytest.mark.parametrize("way", [0, 1])
def test_dispatchers_are_ranked_as_measured(way: int) -> None:
    """HybridEP before DeepEP before the all-to-all, where a position chooses 8 experts on 4 of 8 ranks."""
    ranked = sorted(("all_to_all", "deepep", "hybridep"), key=lambda name: layer_ms("deepseek", name)[way])
    assert ranked == sorted(ranked, key=lambda name: BF16["deepseek", name][way])


def test_a_skew_lengthens_the_experts_and_their_all_to_all() -> None:
    """All but the router's ops, which are of positions, take 1.5 times as long with 1.5 times the rows."""
    even, skewed = layer_ms("deepseek", "all_to_all")[0], layer_ms("deepseek", "all_to_all", skew=1.5)[0]
    assert 1.45 < skewed / even < 1.5
