"""Output of the command line: tables, sentences and JSON. Names from user input are printed literally,
without markup."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import typer
from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from simfrontier.base.wholefile import filled, write_whole
from simfrontier.interfaces.report.render import said
from simfrontier.interfaces.report.table import Table


def console() -> Console:
    """Return a console on standard output without markup and number highlighting; unusual space characters become plain
    ones."""

    class PlainConsole(Console):
        def render_str(self, text: str, *args: Any, **settings: Any) -> Text:
            return super().render_str(plain(text), *args, **settings)

    return PlainConsole(markup=False, emoji=False, highlight=False)


def tell(*lines: str | Table, style: str = "", least_width: int = 0) -> None:
    """Print text lines without wrapping, and tables."""
    screen = console()
    screen.width = max(screen.width, least_width)
    for line in lines:
        screen.print(_drawn(line) if isinstance(line, Table) else line, style=style, soft_wrap=isinstance(line, str))


def _drawn(table: Table) -> RichTable:
    look: dict[str, Any] = {"title_justify": "left", "box": box.SIMPLE_HEAD, "pad_edge": False}
    drawn = RichTable(title=table.title, padding=(0, table.gap, 0, 0), **look)
    for head in table.heads:
        is_words = head in table.words
        justify: Literal["left", "right"] = "left" if is_words or head in table.left else "right"
        drawn.add_column(head, justify=justify, no_wrap=not is_words, overflow="fold")
    for cells, style in table.styled:
        drawn.add_row(*cells, style=style)
    return drawn


def say(verb: str, name: str, *found: object, before: str = "", style: str = "", soft_wrap: bool = True) -> None:
    """Print the sentences that the macro `name` of the verb's terminal templates renders from findings."""
    for sentence in said(verb, name, *found):
        console().print(before + sentence, style=style, soft_wrap=soft_wrap)


def say_written(out: Path | None) -> None:
    """Print the path of the page, if one was written."""
    if out is not None:
        tell(f"Written: {out / 'index.html'} (open it in a browser)")


def write_page(folder: Path, files: Mapping[str, str]) -> None:
    """Write the page of a verb and the files next to it, by name. Raises InputError if they cannot be written."""
    with filled(folder) as new:
        for name, text in files.items():
            write_whole(new / name, text)


def print_json(document: object) -> None:
    """Print a JSON document: NaN and infinity become null, unusual space characters become plain ones."""
    typer.echo(json.dumps(_json_value(document), indent=1, allow_nan=False, ensure_ascii=False))


def _json_value(value: Any) -> Any:
    match value:
        case dict():
            return {key: _json_value(part) for key, part in value.items()}
        case list() | tuple():
            return [_json_value(part) for part in value]
        case float() if not math.isfinite(value):
            return None
        case str():
            return plain(value)
    return value


def plain(text: str) -> str:
    """Replace unusual space characters (such as no-break spaces) by plain ones."""
    return text.replace("\u00a0", " ")
