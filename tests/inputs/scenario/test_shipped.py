"""Shipped scenarios are found by name from any folder; a file of that name comes first."""

from __future__ import annotations

from pathlib import Path

import pytest

from simfrontier.base.errors import InputError
from simfrontier.inputs.scenario import load_scenario
from tests.invoke import TOY


def test_a_name_is_found_beside_a_folder_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy").mkdir()  # results of an earlier run
    assert load_scenario("toy").name == load_scenario(TOY).name


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = TOY.read_text(encoding="utf-8").replace('name = "toy"', 'name = "mine"', 1)
    (tmp_path / "toy").write_text(text, encoding="utf-8")
    assert load_scenario("toy").name == "mine"


@pytest.mark.parametrize("mistyped", ["toyy", "scenarios/toy.toml"])
def test_the_nearest_name_is_said(mistyped: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match='did you mean "toy"'):
        load_scenario(mistyped)
