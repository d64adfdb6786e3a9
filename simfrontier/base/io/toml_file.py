"""A scenario's document as the text of a TOML file, which reads back as the same document."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from simfrontier.base.io.toml_text import toml_key, toml_value


def toml_document(document: Mapping[str, Any], remarks: Mapping[str, str] | None = None) -> str:
    """The document as text. `remarks`: comments above tables, by dotted name. Raises TypeError for what TOML does not
    have, such as None."""
    return "\n".join(_table(document, (), remarks or {})).strip("\n") + "\n"


def comment(words: str) -> str:
    """Words as lines of a comment, whatever is in them."""
    return "\n".join(
        f"# {line}".rstrip() for line in re.sub(r"[^\S\n]|[\x00-\x09\x0b-\x1f\x7f]", " ", words).split("\n")
    )


def _table(table: Mapping[str, Any], path: tuple[str, ...], remarks: Mapping[str, str]) -> Iterator[str]:
    plain = {key: value for key, value in table.items() if not isinstance(value, Mapping)}
    tables = {key: value for key, value in table.items() if isinstance(value, Mapping)}
    if path and (plain or not tables):
        yield ""
        if remark := remarks.get(".".join(path)):
            yield comment(remark)
        yield f"[{'.'.join(map(toml_key, path))}]"
    for key, value in plain.items():
        yield f"{toml_key(key)} = {toml_value(value)}"
    for key, value in tables.items():
        yield from _table(value, (*path, key), remarks)
