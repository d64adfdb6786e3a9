"""Writing a machine's document as a TOML file, numbers with their sources on one line, as the catalog has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from simfrontier.base.io import comment, toml_value

NUMBER = {"value", "kind", "source"}


def machine_text(document: Mapping[str, Any], remarks: Sequence[str]) -> str:
    """Return the file; `remarks` are the comment at its beginning."""
    return "\n".join([comment("\n".join(remarks)), "", *_table(document, ())]).rstrip("\n") + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    lines = {key: value for key, value in table.items() if _is_line(value)}
    tables = {key: value for key, value in table.items() if not _is_line(value)}
    if path and (lines or not tables):
        yield f"[{'.'.join(path)}]"
    for key, value in lines.items():
        yield from _line(key, value)
    if lines or (path and not tables):
        yield ""
    for key, value in tables.items():
        yield from _table(value, (*path, _key(key)))


def _is_line(value: object) -> bool:
    return not isinstance(value, Mapping) or value.keys() >= NUMBER


def _line(key: str, value: object) -> Iterator[str]:
    text = toml_value(value)
    if isinstance(value, list) and len(text) > 100:
        yield f"{_key(key)} = ["
        yield from (f"    {toml_value(each)}," for each in value)
        yield "]"
    else:
        yield f"{_key(key)} = {text}"


def _key(name: str) -> str:
    quoted = toml_value(name)
    return name if name.replace("-", "").replace("_", "").isalnum() and name.isascii() else quoted
