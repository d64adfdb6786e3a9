"""The study of a sweep, as far as the folder of its data set says: title, scenarios, what all points set, log axes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from simfrontier.errors import InputError
from simfrontier.io import read_toml
from simfrontier.plaintext import without_controls
from simfrontier.records import dataclass
from simfrontier.report.findings.sweep_columns import is_list
from simfrontier.sweep import STUDY


@dataclass(frozen=True, slots=True, kw_only=True)
class SweptStudy:
    """A study. `file`: the name of its file; `paths`: of the scenarios, from the folder of that file, by their names;
    `fixed`: what all points set, by key; `fidelity`: instead of that of the scenarios, or empty; `log_axes`: keys whose
    values are at equal ratios, or were drawn by their logarithm."""

    title: str
    file: str
    paths: Mapping[str, str]
    fixed: Mapping[str, Any]
    fidelity: str
    log_axes: frozenset[str]

    @property
    def settings(self) -> tuple[str, ...]:
        """What all points set, as `--set` takes it."""
        return tuple(setting(key, value) for key, value in self.fixed.items())


def study_in(folder: Path, manifest: Mapping[str, Any]) -> SweptStudy:
    """The study of a data set with this manifest; what is missing there is empty."""
    title, file = _text(manifest, "title"), _text(manifest, "file")
    given, document = manifest.get("set"), _document(folder)
    return SweptStudy(
        title=title or _text(manifest, "study"),
        file=file,
        paths=_paths(document, manifest),
        fixed=given if isinstance(given, dict) else {},
        fidelity=_text(manifest, "fidelity"),
        log_axes=_log_axes(document),
    )


def setting(key: str, value: object) -> str:
    """A setting as `--set` takes it: as in TOML, of which JSON's values are a part; a plain word stands as it is."""
    if isinstance(value, str) and value.replace("-", "").replace("_", "").isalpha():
        return f"{key}={value}"
    whole = [value] if is_list(key) and not isinstance(value, list) else value
    return f"{key}={json.dumps(whole, ensure_ascii=False)}"


def _text(manifest: Mapping[str, Any], key: str) -> str:
    value = manifest.get(key)
    return without_controls(value) if isinstance(value, str) else ""


def _document(folder: Path) -> Mapping[str, Any]:
    """The study's file as it was read; empty where it cannot be: the page does without."""
    try:
        return read_toml(folder / STUDY, "study")
    except InputError:
        return {}


def _paths(document: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, str]:
    """The study lists paths, the manifest the names of the same scenarios in the same order."""
    paths, names = document.get("scenarios"), manifest.get("scenarios")
    if not isinstance(paths, list) or not isinstance(names, dict) or len(paths) != len(names):
        return {}
    return {name: path for name, path in zip(names, paths, strict=True) if isinstance(path, str)}


def _log_axes(document: Mapping[str, Any]) -> frozenset[str]:
    axes = document.get("axes")
    tables = [each for each in axes if isinstance(each, dict)] if isinstance(axes, list) else []
    return frozenset(str(table["key"]) for table in tables if "key" in table and _is_log(table))


def _is_log(table: Mapping[str, Any]) -> bool:
    samples = table.get("samples")
    distribution = str(samples.get("distribution", "")) if isinstance(samples, dict) else ""
    return "log_range" in table or table.get("scale") == "log" or distribution.startswith("log-")
