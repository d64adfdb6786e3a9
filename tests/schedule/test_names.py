"""A schedule that is written and read again says the same of its tensors and ops as the one that was built, and says it
in fields."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from simfrontier.scenario import load_scenario
from simfrontier.schedule import Schedule, check, from_json, to_json
from simfrontier.study import schedule_of_case
from tests.invoke import ROOT
from tests.schedule.builders import zero3
from tests.some import some

SCENARIOS = ("toy", "compressed-3d")


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


def test_names_are_for_people() -> None:
    """A schedule whose tensors have other names is as sound, and says the same of them."""
    schedule = zero3(1)
    renamed = {name: f"t{number}" for number, name in enumerate(schedule.tensors)}
    form = json.loads(to_json(schedule))
    form["tensors"] = {renamed[name]: tensor for name, tensor in form["tensors"].items()}
    for tensor in form["tensors"].values():
        tensor.update(
            {key: renamed[tensor[key]] for key in ("weight", "form_of", "recomputes", "shares") if key in tensor}
        )
    for op in form["ops"]:
        for key in {"reads", "writes", "accumulates", "src", "dst", "token"} & op.keys():
            op[key] = _renamed(op[key], renamed)
    strange = from_json(json.dumps(form), "file")
    assert check(strange).is_clean
    for name, tensor in schedule.tensors.items():
        other = strange.tensors[renamed[name]]
        assert other.weight == (None if tensor.weight is None else renamed[tensor.weight])
        assert other.stage == tensor.stage


def _renamed(refs: Any, renamed: Mapping[str, str]) -> Any:
    """References, however nested, to tensors by their other names."""
    if isinstance(refs, str):
        return renamed[refs]
    return [_renamed(each, renamed) for each in refs] if isinstance(refs, list) else refs
