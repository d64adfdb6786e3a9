"""Names of tensors are for people: a schedule with other names is as valid and carries the same facts."""

import json
from collections.abc import Mapping
from typing import Any

from simfrontier.core.program import check, from_json, to_json
from tests.core.program.builders import zero3


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
