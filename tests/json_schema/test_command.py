"""`simfrontier schema`: what it prints and writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from simfrontier.json_schema import SCHEMAS, file_name, schema_text
from tests.invoke import ROOT, invoke, refusal


def test_without_a_name_the_kinds_are_listed() -> None:
    assert [line.split()[0] for line in invoke("schema").out.splitlines()] == list(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_printed_or_written(name: str, tmp_path: Path) -> None:
    assert invoke("schema", name).out == schema_text(name)
    path = tmp_path / "own.json"
    assert invoke("schema", name, "--out", path).out == f"Written to {path}\n"
    assert path.read_text(encoding="utf-8") == schema_text(name)


def test_all_schemas_are_written_into_a_folder(tmp_path: Path) -> None:
    ran = invoke("schema", "--out", tmp_path / "schemas")
    assert ran.code == 0
    assert {path.name: path.read_text(encoding="utf-8") for path in (tmp_path / "schemas").iterdir()} == {
        file_name(name): schema_text(name) for name in SCHEMAS
    }


def test_another_name_is_refused_with_the_nearest() -> None:
    assert refusal("schema", "machines") == 'schema: got "machines"; did you mean "machine"?'


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "cannot be written" in refusal("schema", "stack", "--out", tmp_path / "file" / "x.json")
    assert "cannot be written" in refusal("schema", "--out", tmp_path / "file" / "x")


def test_help_imports_no_pydantic() -> None:
    program = (
        "import sys\nfrom simfrontier.cli.typer_app import app_of\napp_of('schema')\n"
        "print([name for name in ('pydantic', 'simfrontier.json_schema') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
