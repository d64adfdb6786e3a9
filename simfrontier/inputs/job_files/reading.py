"""Reading of a job's configuration files: the format is recognised from a file's content."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from simfrontier.base.errors import InputError
from simfrontier.base.io import json_of, text_of, toml_of, yaml_of
from simfrontier.inputs.job_files import deepspeed, gpt_neox, hugging_face, megatron, nemo, torchtitan
from simfrontier.inputs.job_files.fields import Fields, JobFile
from simfrontier.inputs.job_files.options import is_log, is_script, log_arguments, script_options

WHAT: Final = "job's configuration"
TABLES: Final[tuple[ModuleType, ...]] = (hugging_face, torchtitan, nemo, gpt_neox, deepspeed, megatron)
TITLES: Final = ", ".join(each.TITLE for each in TABLES)


def read(path: Path) -> JobFile:
    """Read a file in the first format that recognises it. Raises InputError."""
    text = text_of(path, WHAT)
    if is_log(text):
        return _read_as(megatron, path, log_arguments(text))
    if is_script(text):
        return _read_as(megatron, path, script_options(text))
    document = _document(text, path)
    if not isinstance(document, Mapping):
        document = {}
    document = {str(key).replace("-", "_"): value for key, value in document.items()}  # written in either way
    for each in TABLES:
        if each.recognises(document):
            return _read_as(each, path, document)
    raise InputError(f"no configuration of a job known here, allowed: {TITLES}", where=str(path))


def _read_as(form: ModuleType, path: Path, document: Mapping[str, Any]) -> JobFile:
    fields = Fields(path, document)
    form.read(fields)
    return fields.done(form.TITLE)


def _document(text: str, path: Path) -> Any:
    """Return the document in a JSON, TOML or YAML text. Raises InputError."""
    where, is_yaml = str(path), path.suffix in (".yml", ".yaml")
    if text.lstrip().startswith("{") and not is_yaml:
        return json_of(text, where, WHAT)
    if not is_yaml and (path.suffix == ".toml" or re.search(r"(?m)^\s*\[[\w.\"-]+\]\s*(#.*)?$", text)):
        return toml_of(text, where)
    try:
        return yaml_of(text, where)
    except InputError:
        if is_yaml:
            raise
        return None  # a script, or a log, of another program
