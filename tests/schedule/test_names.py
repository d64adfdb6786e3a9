"""A schedule that is written and read again says the same of its tensors and ops as the one that was built."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from simfrontier.scenario import load_scenario
from simfrontier.schedule import Schedule, check, from_json, to_json
from simfrontier.study import schedule_of_case
from tests.invoke import ROOT
from tests.schedule.builders import mesh_of as mesh, options_of, schedule_of, zero3, zeropp
from tests.some import some

SCENARIOS = ("toy", "crosscheck", "compressed-3d", "cross-entropy", "softmax")


def built(name: str) -> Iterator[Schedule]:
    """Every plan of a scenario at its smallest size."""
    scenario = load_scenario(ROOT / "scenarios" / f"{name}.toml")
    for plan in scenario.plans:
        yield schedule_of_case(scenario, scenario.case(plan, min(scenario.file.run.devices)))


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_is_read_equals_what_was_built(name: str) -> None:
    for schedule in some(built(name)):
        again = from_json(to_json(schedule), "file")
        assert dict(again.tensors) == dict(schedule.tensors)
        assert again.roles == schedule.roles


def test_copies_that_may_be_old_and_buffers_are_read_too() -> None:
    for schedule in (zero3(), zeropp("0.10.2"), schedule_of(options_of("zero-topo"), mesh(2, 2, 2), grad_accum=2)):
        assert dict(from_json(to_json(schedule), "file").tensors) == dict(schedule.tensors)


def test_ops_and_blocks_are_numbered_in_order_of_appearance() -> None:
    for schedule in some(built("toy")):
        seen = {op.number: op for role in schedule.roles for _, op in role.instances()}
        assert [*seen] == [*range(len(schedule.ops))]
        assert all(mine is op for mine, op in zip(seen.values(), schedule.ops, strict=True))
        blocks = {call.block: call.ops for role in schedule.roles for call in role.calls}
        assert [*blocks.items()] == [*enumerate(schedule.blocks)]


def test_ops_of_another_schedule_get_numbers_of_this_one() -> None:
    schedule = zero3()
    (role,) = schedule.roles
    later = replace(schedule, roles=(replace(role, calls=role.calls[len(role.calls) // 2 :]),))
    assert [op.number for op in later.ops] == [*range(len(later.ops))]
    assert later.roles[0].calls == role.calls[len(role.calls) // 2 :]
    assert schedule.ops[0].number == 0 and schedule.roles[0].calls[0].block == 0


def test_names_that_follow_no_rule_say_nothing() -> None:
    """Tensors that are named by chance are of no weight; the check says what it misses, and nothing breaks."""
    text = to_json(zero3(1))
    for number, name in enumerate(sorted(zero3(1).tensors, key=len, reverse=True)):
        text = text.replace(f'"{name}"', f'"t{number}.."')
    strange = from_json(text, "file")
    assert {t.weight for t in strange.tensors.values() if t.role != "weight"} == {None}
    assert {(t.form_of, t.recomputes, t.stage) for t in strange.tensors.values()} == {(None, None, None)}
    assert not check(strange).is_clean
