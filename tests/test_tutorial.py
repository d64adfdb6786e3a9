"""The tutorial notebook runs from top to bottom, shows what it says, and its own plan is short."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"


@cache
def executed() -> list[dict[str, Any]]:
    """The code cells after a run in a kernel of their own."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(ROOT)}}).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def shown(cell: dict[str, Any]) -> dict[str, str]:
    """What a cell shows, by kind."""
    out: dict[str, str] = {}
    for each in cell["outputs"]:
        out |= each.get("data", {}) if "data" in each else {"text/plain": each.get("text", "")}
    return out


def cell_of(words: str) -> dict[str, Any]:
    return next(cell for cell in executed() if words in cell["source"])


@pytest.mark.long  # make docs executes it as well
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_cell_runs_and_comparisons_show_a_chart_in_little_html() -> None:
    for words in ("study = sf.compare", "mine = sf.compare"):
        found = shown(cell_of(words))
        assert "<svg" in found["text/html"] and len(found["text/html"]) < 20_000
        assert len(found["text/plain"].splitlines()) <= 20
        assert "is the fastest of 4 plans" in found["text/plain"] or "too close to call" in found["text/plain"]


def test_the_own_plan_is_short_sound_and_trained_equal() -> None:
    own = cell_of("@sf.plan_family")["source"]
    assert len(own.splitlines()) <= 15
    assert shown(cell_of("sf.check(scenario"))["text/plain"] == "[(), (), (), ()]"
    assert "equal" in shown(cell_of("trained = train("))["text/plain"]
