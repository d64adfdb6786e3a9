"""Checking one micro-batch of each kind gives the findings of checking all, in valid and in faulty schedules."""

import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from simfrontier.base.errors import SimfrontierError
from simfrontier.core.program import Call, Role, Schedule, check, checker, from_json, to_json
from simfrontier.core.program.checker import CheckReport
from tests.core.program.builders import ENGINES, mesh_of, options_of, schedule_of
from tests.mutated.facts import sampled
from tests.real.grids import megatron

MICRO_BATCHES = 6
INT = "dp=int8:64, tp=int8:64, pp=int4:64, zero=int8:64"


def _zero(family: str, engine: str = "tight", **options: Any) -> Schedule:
    return schedule_of(options_of(family, **options), mesh_of(2, 2, 2), ENGINES[engine], MICRO_BATCHES)


def _pipeline(**keys: Any) -> Schedule:
    return megatron(1, 2, 2, grad_accum=MICRO_BATCHES, **keys).schedule


CASES = {
    "zero2": lambda: _zero("zero2"),
    "zero3": lambda: _zero("zero3"),
    "zeropp": lambda: _zero("zeropp"),
    "zero-topo": lambda: _zero("zero-topo"),
    "1f1b tied": lambda: _pipeline(data="zero1", shape="tied"),
    "1f1b coded": lambda: _pipeline(compression=INT, data="ddp", precision="fp32", compress_from=0),
    "interleaved": lambda: _pipeline(order="interleaved", chunks=2),
}


@cache
def sound(case: str) -> Schedule:
    return CASES[case]()


def of_all(schedule: Schedule) -> CheckReport:
    """The report of a check that walks through all micro-batches."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(checker, "one_of_each_kind", lambda _: None)
        return check(schedule)


@pytest.mark.parametrize("case", ["zero3", "1f1b tied"])
def test_findings_of_changed_facts_are_those_of_a_check_of_all(case: str) -> None:
    text = to_json(sound(case))
    num_faulty = 0
    for mutation in random.Random(case).sample(sampled(text, random.Random(case), 1), 16):
        try:
            changed = from_json(mutation.of(text), case)
        except SimfrontierError:
            continue
        report = check(changed)
        assert report == of_all(changed), str(mutation)
        num_faulty += not report.is_clean
    assert num_faulty >= 4


def _edited(calls: list[Call], kind: str, at: int, other: int) -> list[Call]:
    """Calls of which one is left out, made twice, made elsewhere, made for another micro-batch, or lacks an op."""
    out, call = calls[:at] + calls[at + 1 :], calls[at]
    if kind == "twice":
        return [*calls[:at], call, *calls[at:]]
    if kind == "elsewhere":
        return [*out[:other], call, *out[other:]]
    if kind == "another micro-batch":
        return [*calls[:at], replace(call, micro=other % MICRO_BATCHES), *calls[at + 1 :]]
    if kind == "without an op":
        place = other % len(call.ops)
        return [*calls[:at], replace(call, ops=(*call.ops[:place], *call.ops[place + 1 :])), *calls[at + 1 :]]
    return out


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(list(CASES)),
    st.sampled_from(["left out", "twice", "elsewhere", "another micro-batch", "without an op"]),
    st.integers(0),
    st.integers(0),
    st.integers(0),
)
def test_findings_of_one_changed_call_are_those_of_a_check_of_all(
    case: str, kind: str, role: int, at: int, other: int
) -> None:
    roles = list(sound(case).roles)
    number = role % len(roles)
    calls = list(roles[number].calls)
    calls = _edited(calls, kind, at % len(calls), other % len(calls))
    roles[number] = Role(roles[number].name, tuple(calls), roles[number].at)
    changed = replace(sound(case), roles=tuple(roles))
    assert check(changed) == of_all(changed)
