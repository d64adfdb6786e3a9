"""The machine that docs/how-to/machine.md writes step by step: its parts are those of the file, and the answer printed
there is what the command prints."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from simfrontier.core.machine import load_machine
from simfrontier.core.machine.load import document_of
from tests.invoke import ROOT, invoke

PAGE = (ROOT / "docs/how-to/machine.md").read_text(encoding="utf-8")
FILE = Path("docs/how-to/hunter.toml")
STEPS = PAGE[PAGE.index("## A whole machine, step by step") :]


def test_the_blocks_together_are_parts_of_the_file() -> None:
    blocks = re.findall(r"```toml\n(.*?)```", STEPS, re.DOTALL)
    assert len(blocks) == 6
    assert _is_part(tomllib.loads("".join(blocks)), tomllib.loads((ROOT / FILE).read_text(encoding="utf-8")))


def _is_part(part: Any, whole: Any) -> bool:
    if not isinstance(part, dict):
        return bool(part == whole)
    return all(key in whole and _is_part(value, whole[key]) for key, value in part.items())


def test_the_first_example_states_what_differs_from_its_base() -> None:
    block = re.search(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    assert block is not None
    ours = tomllib.loads(block[1])
    base = document_of(ours["base"])
    assert ours["link_classes"]["nic"]["bytes_per_s"]["value"] != base["link_classes"]["nic"]["bytes_per_s"]["value"]


def test_all_pairs_are_joined_and_rings_load_links_equally() -> None:
    machine = load_machine(str(ROOT / FILE))
    assert (machine.devices_per_node, machine.num_nodes) == (4, 188)
    rings = re.search(r"\[node\.rings\].*?orders = \[(.*?)\n\]", (ROOT / FILE).read_text(encoding="utf-8"), re.DOTALL)
    assert rings is not None
    orders = [[int(each) for each in row.split(",")] for row in re.findall(r"\[([\d, ]+)\]", rings[1])]
    passes = [(a, b) for order in orders for a, b in zip(order, order[1:] + order[:1], strict=True)]
    assert {pair: passes.count(pair) for pair in passes} == {(a, b): 2 for a in range(4) for b in range(4) if a != b}


@pytest.mark.parametrize("command", re.findall(r"^\$ simfrontier ((?:show|topology) .*)$", STEPS, re.MULTILINE))
def test_it_is_looked_at_as_told(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    ran = invoke(*shlex.split(command))
    assert ran.code == 0, ran.err


@pytest.mark.long
def test_the_answer_is_what_the_command_prints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    block = STEPS[STEPS.index("$ simfrontier compare") :].split("```")[0]
    command, printed = block.split("\n", 1)
    ran = invoke(*shlex.split(command)[2:])
    assert ran.code == 0, ran.err
    assert [line.rstrip() for line in ran.out.splitlines()] == printed.rstrip("\n").splitlines()
