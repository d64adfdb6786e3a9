"""Lowered schedules in files: what is written is read back, repeats are stored once, faults are said in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simfrontier.collectives.lowering import LoweredSchedule, Recipe, load_lowered, save_lowered
from simfrontier.errors import InputError
from tests.collectives.lowering_runs import recipe

DIGEST = "0123456789abcdef" * 4
RING, TREE = recipe("ring", 3, channels=2, slices=4), recipe("tree", 4, per_node=2)
LOWERED = LoweredSchedule(digest=DIGEST, recipes=((RING, RING), (TREE,), (), (RING,)))


def stored(path: Path) -> dict[str, object]:
    save_lowered(LOWERED, path)
    form = json.loads(path.read_text(encoding="ascii"))
    assert isinstance(form, dict)
    return form


def test_what_is_written_is_read_back_and_the_same_is_written_again(tmp_path: Path) -> None:
    first, second = tmp_path / "lowered-a.json", tmp_path / "lowered-b.json"
    save_lowered(LOWERED, first)
    assert load_lowered(first) == LOWERED
    save_lowered(load_lowered(first), second)
    assert first.read_bytes() == second.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["lowered-a.json", "lowered-b.json"]


def test_a_recipe_is_stored_once(tmp_path: Path) -> None:
    form = stored(tmp_path / "lowered.json")
    assert form["collectives"] == [[0, 0], [1], [], [0]]
    assert form["recipes"] == [
        {
            "algorithm": "ring",
            "orders": [list(order) for order in RING.orders],
            "per_node": 3,
            "slices": 4,
            "least_elements": 1,
        },
        RECIPE | {"algorithm": "tree", "orders": [[0, 1, 2, 3]]},
    ]
    assert (form["format"], form["version"], form["digest"]) == ("simfrontier.lowered", 1, DIGEST)


RECIPE = {"algorithm": "ring", "orders": [[0, 1]], "per_node": 2, "slices": 1, "least_elements": 1}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "x"}, 'format: got "x", allowed: "simfrontier.lowered", of a lowered schedule'),
        ({"version": 2}, "version: got 2, allowed: 1, which this simfrontier reads"),
        ({"version": True}, "version: got true, allowed: 1, which this simfrontier reads"),
        ({"digest": "abc"}, 'digest: got "abc", allowed: 64 hexadecimal digits'),
        ({"digest": None}, "digest: got null, allowed: a text"),
        ({"recipe": []}, 'recipe: unknown key; did you mean "recipes"?'),
        ({"recipes": {}}, "recipes: got {}, allowed: a list"),
        ({"recipes": [7]}, "recipes[0]: got 7, allowed: a table"),
        ({"recipes": [{"algorithm": "ring"}]}, "recipes[0].orders: missing"),
        (
            {"recipes": [RECIPE | {"algorithm": "rign"}]},
            'recipes[0].algorithm: got "rign", allowed: "ring", "ring_twice", "direct", "tree", "halving" or '
            '"two_level"; did you mean "ring"?',
        ),
        (
            {"recipes": [RECIPE | {"algorithm": 3}]},
            'recipes[0].algorithm: got 3, allowed: "ring", "ring_twice", "direct", "tree", "halving" or "two_level"',
        ),
        ({"recipes": [RECIPE | {"orders": [0, 1]}]}, "recipes[0].orders[0]: got 0, allowed: a list"),
        ({"recipes": [RECIPE | {"orders": [[0, 1.0]]}]}, "recipes[0].orders[0][1]: got 1.0, allowed: a whole number"),
        (
            {"recipes": [RECIPE | {"orders": [[0, 2]]}]},
            "recipes[0]: orders: channel 0 is not an order of the members 0 to",
        ),
        ({"recipes": [RECIPE | {"per_node": 0}]}, "recipes[0]: per_node: 0 does not divide the group's 2 members"),
        ({"recipes": [RECIPE | {"slices": False}]}, "recipes[0].slices: got false, allowed: a whole number"),
        ({"recipes": [RECIPE | {"slices": 0}]}, "recipes[0]: slices: 0; allowed: 1 or more"),
        ({"recipes": [RECIPE | {"least_elements": 0}]}, "recipes[0]: least_elements: 0; allowed: 1 or more"),
        ({"collectives": [[0], [0, 2]]}, "collectives[1][1]: got 2, allowed: one of the 2 recipes, counted from 0"),
        ({"collectives": [[-1]]}, "collectives[0][0]: got -1, allowed: one of the 2 recipes, counted from 0"),
        ({"collectives": [0]}, "collectives[0]: got 0, allowed: a list"),
    ],
)
def test_what_does_not_fit_is_named(tmp_path: Path, change: dict[str, object], message: str) -> None:
    path = tmp_path / "lowered.json"
    path.write_text(json.dumps(stored(path) | change), encoding="ascii")
    with pytest.raises(InputError) as error:
        load_lowered(path)
    assert str(error.value).startswith(f"{path}: {message}") and "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "line 1 column 2: not JSON"),
        (b"\xff", "not a lowered schedule: byte 0 is not UTF-8 text"),
        (b"[]", "not a lowered schedule: got [], allowed: a table"),
        (b"[" * 100_000, "not a lowered schedule: nested too deeply"),
    ],
)
def test_what_is_no_lowered_schedule_is_said(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "lowered.json"
    path.write_bytes(content)
    with pytest.raises(InputError) as error:
        load_lowered(path)
    assert str(error.value).startswith(f"{path}: {message}") and "\n" not in str(error.value)


def test_files_that_are_not_there_are_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere/lowered\.json: cannot read this lowered schedule: No such file"):
        load_lowered(tmp_path / "nowhere" / "lowered.json")
    with pytest.raises(InputError, match=r"nowhere/lowered\.json: cannot be written: No such file"):
        save_lowered(LOWERED, tmp_path / "nowhere" / "lowered.json")


def test_a_recipe_without_members_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "lowered.json"
    save_lowered(LoweredSchedule(digest=DIGEST, recipes=((Recipe(algorithm="ring", orders=((),), per_node=1),),)), path)
    with pytest.raises(InputError, match="orders: none; allowed: one or more, each of all members"):
        load_lowered(path)
