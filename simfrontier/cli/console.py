"""Tables, sentences and JSON on standard output; names that a user gave are shown as they are."""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text


def console() -> Console:
    """Standard output, where brackets and colons in a text mean themselves, numbers get no colours, and blanks are
    those that a terminal and a search know."""
    from rich.console import Console

    class PlainConsole(Console):
        def render_str(self, text: str, *args: Any, **settings: Any) -> Text:
            return super().render_str(plain(text), *args, **settings)

    return PlainConsole(markup=False, emoji=False, highlight=False)


def grid(
    title: str | None,
    heads: Sequence[str],
    rows: Iterable[Sequence[str]] = (),
    words: Collection[str] = (),
    left: Collection[str] = (),
    gap: int = 1,
    styles: Iterable[str] = (),
) -> Table:
    """A table for the terminal. Columns of `words` are aligned left and may be broken, those of `left` only the first;
    all others are numbers. `styles`: of the first rows."""
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False)
    for head in heads:
        is_words = head in words
        justify = "left" if is_words or head in left else "right"
        table.add_column(head, justify=justify, no_wrap=not is_words, overflow="fold")  # type: ignore[arg-type]
    for cells, style in zip(rows, chain(styles, repeat("")), strict=False):
        table.add_row(*cells, style=style)
    return table


def say(verb: str, name: str, *found: object, before: str = "", style: str = "", soft_wrap: bool = True) -> None:
    """Print the sentences that a macro of the verb's texts makes of findings; without `soft_wrap` broken into lines."""
    from simfrontier.report import said

    for sentence in said(verb, name, *found):
        console().print(before + sentence, style=style, soft_wrap=soft_wrap)


def say_written(out: Path | None) -> None:
    """Print where the page is, if one was written."""
    if out is not None:
        console().print(f"Written: {out / 'index.html'} (open it in a browser)", soft_wrap=True)


def write_page(folder: Path, verb: str, files: Mapping[str, str]) -> None:
    """Write the page of a verb, and what is beside it, by name. Raises InputError where that cannot be done."""
    from simfrontier.wholefile import filled, write_whole

    with filled(folder, verb) as new:
        for name, text in files.items():
            write_whole(new / name, text)


def print_json(document: object) -> None:
    """Print a document for a program, in values that JSON has and a program can search: null for NaN and infinity, no
    unusual blanks."""
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
    """With blanks as a terminal and a search know them."""
    return text.replace("\u00a0", " ")
