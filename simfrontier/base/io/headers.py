"""Files of simfrontier's own formats: they have the keys format and version beside the others."""

from __future__ import annotations

from typing import Any

from simfrontier.base.errors import InputError, shown, wrong


def headed(value: Any, title: str, form: str, version: int, where: str) -> dict[str, Any]:
    """The other keys of a document that is of this form and version. Raises InputError."""
    if not isinstance(value, dict):
        raise InputError(f"not a {title}: {wrong(value, 'a table')}", where=where)
    if value.get("format") != form:
        raise InputError(f"{wrong(value.get('format'), shown(form))}, of a {title}", where=where, key=("format",))
    got = value.get("version")
    if got != version or isinstance(got, bool):
        raise InputError(wrong(got, f"{version}, which this simfrontier reads"), where=where, key=("version",))
    return {name: part for name, part in value.items() if name not in ("format", "version")}
