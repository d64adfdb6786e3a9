"""Commands of how-to pages print the lines that stand below them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.invoke import ROOT, invoke

PAGES = ("docs/stacks.md", "docs/how-to/job.md", "docs/how-to/chakra.md")
NOT_SHOWN = "..."


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page, each with the lines that stand below it."""
    for block in re.findall(r"```\n(\$ simfrontier .*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, *lines = part.splitlines()
            yield command.removeprefix("simfrontier "), [line for line in lines if line != NOT_SHOWN]


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
def test_a_command_prints_the_lines_below_it(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In this order, with others between them."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    for command, lines in commands(page):
        ran = invoke(*shlex.split(command))
        assert ran.code == 0, ran.err
        said = iter([line.rstrip() for line in ran.out.splitlines()])
        assert [line for line in lines if line not in said] == []
