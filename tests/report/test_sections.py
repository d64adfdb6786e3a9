"""Sections that extras add: where they stand, when they are left out, and that findings.json has theirs."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from simfrontier.report import Section, StudyView, findings_of, sections, write_findings
from simfrontier.report.page import page
from tests.report.studies import study


@dataclass(frozen=True, slots=True, kw_only=True)
class NumPlans:
    number: int


def _found(view: StudyView) -> NumPlans | None:
    return NumPlans(number=len(view.plans)) if len(view.sizes) == 2 else None


def _html(_: StudyView, found: NumPlans) -> str:
    return f'<section id="counted">{found.number} plans</section>'


def adding(monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    one = Section(name="counted", title="Counted", after=after, found=_found, html=_html)
    monkeypatch.setattr(sections, "added", lambda module, kind: (one,))


def test_a_section_stands_behind_what_it_follows(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    adding(monkeypatch, "time")
    view = StudyView(study=study())
    made = page(view.study, None)
    anchors = re.findall(r'<section id="(\w+)">', made)
    assert anchors[anchors.index("time") + 1] == "counted"
    assert '<a href="#counted">Counted</a>' in made and "3 plans" in made
    write_findings(findings_of(view), view, tmp_path / "findings.json")
    assert json.loads((tmp_path / "findings.json").read_text(encoding="utf-8"))["counted"] == {"number": 3}


def test_without_findings_there_is_no_section(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    adding(monkeypatch, "time")
    view = StudyView(study=study(devices=(8,)))
    assert 'id="counted"' not in page(view.study, None)
    write_findings(findings_of(view), view, tmp_path / "findings.json")
    assert "counted" not in json.loads((tmp_path / "findings.json").read_text(encoding="utf-8"))


def test_a_section_behind_none_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    adding(monkeypatch, "nowhere")
    with pytest.raises(AssertionError, match="counted follows nowhere"):
        page(study(), None)
