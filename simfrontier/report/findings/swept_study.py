"""The study of a sweep, as far as the folder of its data set says: its title, scenarios, and what all points set."""

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
    `settings`: of all points, as `--set` takes them; `fidelity`: instead of that of the scenarios, or empty."""

    title: str
    file: str
    paths: Mapping[str, str]
    settings: tuple[str, ...]
    fidelity: str


def study_in(folder: Path, manifest: Mapping[str, Any]) -> SweptStudy:
    """The study of a data set with this manifest; what is missing there is empty."""
    title, file = _text(manifest, "title"), _text(manifest, "file")
    given = manifest.get("set")
    return SweptStudy(
        title=title or _text(manifest, "study"),
        file=file,
        paths=_paths(folder, manifest),
        settings=tuple(setting(key, value) for key, value in given.items()) if isinstance(given, dict) else (),
        fidelity=_text(manifest, "fidelity"),
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


def _paths(folder: Path, manifest: Mapping[str, Any]) -> dict[str, str]:
    """The study lists paths, the manifest the names of the same scenarios in the same order."""
    try:
        paths = read_toml(folder / STUDY, "study").get("scenarios")
    except InputError:  # the page does without
        return {}
    names = manifest.get("scenarios")
    if not isinstance(paths, list) or not isinstance(names, dict) or len(paths) != len(names):
        return {}
    return {name: path for name, path in zip(names, paths, strict=True) if isinstance(path, str)}
