"""The schemas by name, and as texts of files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Final

from simfrontier.errors import InputError, unknown
from simfrontier.io import Schema

SCHEMAS: Final[Mapping[str, str]] = {
    "scenario": "scenario files: machine, model, sizes, plans",
    "machine": "files of machines",
    "library": "files of collective libraries",
    "stack": "files of software stacks",
    "calibration": "files of measured numbers and times",
    "study": "studies: scenarios, axes, filters",
}


def json_schema(name: str) -> Schema:
    """The schema of that name: what the files of that kind may hold, models and plans of extras included. Raises
    InputError."""
    from simfrontier.json_schema import catalog_files, scenario_file, study_file

    makers: dict[str, Callable[[], Schema]] = {
        "scenario": scenario_file.scenario_file,
        "machine": catalog_files.machine_file,
        "library": catalog_files.library_file,
        "stack": catalog_files.stack_file,
        "calibration": catalog_files.calibration_file,
        "study": study_file.study_file,
    }
    if name not in makers:
        raise InputError(unknown(name, makers), where="schema")
    return makers[name]()


def schema_text(name: str) -> str:
    """The same as the text of a file; the same bytes each time. Raises InputError."""
    return json.dumps(json_schema(name), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def file_name(name: str) -> str:
    """What a schema's file is called."""
    return f"simfrontier-{name}.schema.json"
