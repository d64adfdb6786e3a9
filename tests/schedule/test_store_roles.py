"""The stored form of pipelines: one line for every way in which places and exchanges can be wrong."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from simfrontier.errors import InputError
from simfrontier.schedule import from_json, to_json
from tests.schedule.pipelines import Pipeline


def form() -> Any:
    """Three stages, two micro-batches."""
    return json.loads(to_json(Pipeline(3, 2).schedule()))


def exchange(text: Any, name: str = "forward") -> Any:
    return next(op for op in text["ops"] if op["kind"] == "exchange" and op["name"] == name)


def in_exchange(name: str = "forward", **fields: Any) -> Callable[[Any], None]:
    return lambda text: exchange(text, name).update(fields)


def without(name: str, key: str) -> Callable[[Any], None]:
    return lambda text: exchange(text, name).pop(key)


def at(role: int, place: Any) -> Callable[[Any], None]:
    return lambda text: text["roles"][role].update(at=place)


def no_place(text: Any) -> None:
    del text["roles"][1]["at"]


def no_role(text: Any) -> None:
    del text["roles"][1]


def one_role(text: Any) -> None:
    del text["roles"][1:]
    del text["roles"][0]["at"]


def same_name(text: Any) -> None:
    text["roles"][2]["name"] = "s0"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (in_exchange(ends=[1, 1]), "ops[{}]: both ends are stage 1; they differ"),
        (in_exchange(ends=[0, 3]), "ops[{}]: end 3 is out of range; allowed: 0 or more, up to 2"),
        (in_exchange(ends=[-1, 1]), "ops[{}]: end -1 is out of range; allowed: 0 or more, up to 2"),
        (in_exchange(ends=[0]), "ops[{}].ends: got 1 entries, allowed: 2"),
        (in_exchange(ends=[0, "1"]), 'ops[{}].ends[1]: got "1", allowed: a whole number'),
        (in_exchange(axis="stag"), "ops[{}]: unknown axis 'stag'; did you mean \"stage\"?"),
        (in_exchange(src=["x", "x"]), "ops[{}]: 2 src, but 1 dst; they pair up"),
        (in_exchange(back_src=["d.x"]), "ops[{}]: 1 back_src, but 0 back_dst; they pair up"),
        (in_exchange(src=[], dst=[]), "ops[{}]: it sends nothing"),
        (in_exchange(codec="fp17"), "ops[{}].codec: codec 'fp17'"),
        (in_exchange(via="ring"), "ops[{}].via: unknown key"),
        (in_exchange(kind="exchagne"), 'ops[{}].kind: got "exchagne"; did you mean "exchange"?'),
        (without("forward", "ends"), "ops[{}].ends: missing"),
        (
            in_exchange(ends=[0, 2]),
            "roles[1].calls: exchange forward is between stage 0 and 2; role s1 is at stage 1",
        ),
        (
            in_exchange(axis="data", ends=[0, 1]),
            "roles[0].calls: exchange forward is between data 0 and 1; role s0 is at stage 0",
        ),
        (one_role, "roles[0].calls: exchange forward is between stage 0 and 1; role s0 is at no place"),
        (at(1, ["stage", 0]), "roles[1].at: stage 0 is the place of role s0 already"),
        (at(1, ["stage", 3]), "roles[1].at: 3 is out of range; allowed: 0 or more, up to 2"),
        (at(1, ["stages", 1]), "roles[1].at: unknown axis 'stages'; did you mean \"stage\"?"),
        (at(1, ["data", 1]), "roles[1].at: axis data; the roles before it stand along stage"),
        (at(1, ["stage"]), "roles[1].at: got 1 entries, allowed: 2"),
        (no_place, "roles[1]: role s1 is at no place; each of 3 roles needs one: [axis, coordinate]"),
        (no_role, "roles[1].at: no role at stage 1; roles stand at all of its 3 coordinates"),
        (same_name, "roles[2].at: the name s0 is that of a role before it"),
    ],
)
def test_faults_are_told_with_their_place(edit: Callable[[Any], None], message: str) -> None:
    text = form()
    number = text["ops"].index(exchange(text))
    edit(text)
    with pytest.raises(InputError) as caught:
        from_json(json.dumps(text), "s.json")
    assert str(caught.value).startswith("s.json: " + message.format(number))
    assert "\n" not in str(caught.value)
