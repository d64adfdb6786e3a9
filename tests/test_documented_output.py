"""Commands of pages print the lines that stand below them, and Python of pages runs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.invoke import ROOT, invoke

PAGES = ("docs/stacks.md", "docs/how-to/job.md", "docs/how-to/chakra.md")
NOT_SHOWN = "..."
IN_PYTHON = ("README.md", "docs/best-plan.md", "docs/how-to/published.md", "docs/how-to/unknowns.md")


def blocks(page: str, form: str) -> list[str]:
    """The blocks of a page of this form, behind the mark that opens a block."""
    return re.findall(f"```{form}```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)


def commands(page: str) -> Iterator[tuple[str, list[str]]]:
    """The commands of a page, each with the lines that stand below it."""
    for block in blocks(page, r"\n(\$ simfrontier .*?)"):
        for part in block.removeprefix("$ ").split("\n$ "):
            command, *lines = part.splitlines()
            yield command.removeprefix("simfrontier "), [line for line in lines if line != NOT_SHOWN]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working folder, with the scenarios of the clone."""
    (tmp_path / "scenarios").symlink_to(ROOT / "scenarios")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES)
@pytest.mark.usefixtures("folder")
def test_a_command_prints_the_lines_below_it(page: str) -> None:
    """In this order, with others between them."""
    for command, lines in commands(page):
        ran = invoke(*shlex.split(command))
        assert ran.code == 0, ran.err
        said = iter([line.rstrip() for line in ran.out.splitlines()])
        assert [line for line in lines if line not in said] == []


@pytest.mark.long
@pytest.mark.parametrize("page", IN_PYTHON)
def test_python_of_a_page_runs(page: str, folder: Path) -> None:
    """Beside the scenario of the page that describes one."""
    described = blocks("docs/how-to/describe.md", r"toml\n(.*?)")[0]
    (folder / "our-8b.toml").write_text(described, encoding="utf-8")
    exec("".join(blocks(page, r"python\n(.*?)")), {})
