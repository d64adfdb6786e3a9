"""Effects of a slowed link: worked by hand, the file comes back as it was, and what is wrong in it is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from simfrontier.errors import InputError
from simfrontier_extras.emulation.crosscheck.slowed import SlowLinkEffect, load_slowed, save_slowed

TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc", "Cf")), max_size=12)
SECONDS = st.floats(1e-9, 1e3)
EFFECTS = st.builds(
    SlowLinkEffect,
    what=TEXT,
    link=TEXT,
    factor=st.floats(1e-3, 1.0),
    sim_s=SECONDS,
    sim_slowed_s=SECONDS,
    real_s=SECONDS,
    real_slowed_s=SECONDS,
)
EFFECT = SlowLinkEffect(
    what="step of zero3",
    link="node 0 nic0>net",
    factor=0.5,
    sim_s=2.0,
    sim_slowed_s=3.0,
    real_s=2.5,
    real_slowed_s=5.0,
)


def test_an_effect_is_slowed_over_plain_time() -> None:
    assert (EFFECT.sim_effect, EFFECT.real_effect) == (1.5, 2.0)  # 3 / 2 and 5 / 2.5


@given(made=st.lists(EFFECTS, max_size=4))
def test_effects_come_back_as_they_were(made: list[SlowLinkEffect], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.getbasetemp() / "slowed.json"
    save_slowed(made, path)
    assert load_slowed(path) == tuple(made)
    assert [part.name for part in path.parent.glob("slowed.json*")] == ["slowed.json"]


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("what", 3, "effects[0].what: got 3, allowed: a text"),
        ("factor", 0, "effects[0].factor: got 0, allowed: at least 1e-06 and at most 1"),
        ("factor", 1.5, "effects[0].factor: got 1.5, allowed: at least 1e-06 and at most 1"),
        ("sim_s", 0, "effects[0].sim_s: got 0, allowed: at least 1e-12 and at most 1e+09"),
        ("real_slowed_s", True, "effects[0].real_slowed_s: got true, allowed: a number"),
        ("real_slowed_s", 10**400, "effects[0].real_slowed_s: "),
        ("link_name", "x", 'effects[0].link_name: unknown key; did you mean "link"?'),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(tmp_path: Path, key: str, value: Any, message: str) -> None:
    path = tmp_path / "slowed.json"
    save_slowed([EFFECT], path)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["effects"][0][key] = value
    path.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_slowed(path)
    assert str(caught.value).startswith(f"{path}: {message}") and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "line 1 column 1: not JSON"),
        ("[" * 100_000, "not a file of slowed links: nested too deeply"),
        ("[]", "got [], allowed: a table"),
        ('{"effects": {}}', "effects: got {}, allowed: a list"),
        ("{}", "effects: missing"),
    ],
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "slowed.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        load_slowed(path)
    assert str(caught.value).startswith(f"{path}: {message}")


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    for act in (lambda: save_slowed([EFFECT], tmp_path / "no" / "slowed.json"), lambda: load_slowed(tmp_path / "no")):
        with pytest.raises(InputError, match="No such file or directory"):
            act()
