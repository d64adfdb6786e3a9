"""HTML in small pieces: escaped text, tables, cards, choices between variants."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

Figure = dict[str, Any]


def text(value: object) -> str:
    """Text of the page, escaped."""
    return escape(str(value), quote=True)


def section(anchor: str, title: str, *parts: str) -> str:
    """A section with a heading that the contents link to."""
    return (
        f'<section id="{anchor}">\n<h2>{text(title)}</h2>\n'
        + "\n".join(part for part in parts if part)
        + "\n</section>"
    )


def paragraph(words: str, kind: str = "") -> str:
    """A paragraph of plain words."""
    return f"<p{_class(kind)}>{text(words)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table of ready-made cells. The first column names the row; `kind` "words" aligns all columns left, "named"
    lets long names of rows break, "plans" gives them room as well."""
    top = "".join(f'<th scope="col">{cell}</th>' for cell in head)
    body = "\n".join(
        f'<tr><th scope="row">{row[0]}</th>' + "".join(f"<td>{cell}</td>" for cell in row[1:]) + "</tr>" for row in rows
    )
    whole = f"<table{_class(kind)}>\n<thead><tr>{top}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"
    return f'<div class="wide">{whole}</div>'


def swatch(colour: str) -> str:
    """A small square of a colour before a name."""
    return f'<span class="swatch" style="background:{colour}"></span>'


def keyed(colour: str, name: str) -> str:
    """A name behind the square of its colour, never torn from it."""
    first, blank, rest = name.partition(" ")
    return f'<span class="keyed">{swatch(colour)}{text(first)}</span>{blank}{text(rest)}'


def cards(entries: Iterable[tuple[str, str, str]]) -> str:
    """Key numbers: (value, what it is, remark)."""
    made = (
        f'<div class="card"><b>{text(value)}</b><span>{text(name)}</span><small>{text(remark)}</small></div>'
        for value, name, remark in entries
    )
    return '<div class="cards">' + "".join(made) + "</div>"


def items(entries: Iterable[str], kind: str = "") -> str:
    """A list of ready-made entries; nothing where there are none."""
    made = "".join(f"<li>{entry}</li>" for entry in entries)
    return f"<ul{_class(kind)}>{made}</ul>" if made else ""


def plot(name: str, figures: Mapping[str, Figure], label: str, shown: str | None = None) -> str:
    """A chart, with a button for each of its variants where there are several. The script of the page draws it."""
    names = list(figures)
    first = shown or names[0]
    data = json.dumps(figures, separators=(",", ":"), ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    height = max(int(figure["layout"]["height"]) for figure in figures.values())
    box = (
        f'<div class="plot" data-figures="{name}" data-shown="{text(first)}" role="img" aria-label="{text(label)}" '
        f'style="min-height:{height}px"></div>'
    )
    return (
        f'<figure class="chooser">{_buttons(names, first)}{box}'
        f'<script type="application/json" id="{name}">{data}</script></figure>'
    )


def panels(variants: Mapping[str, str], shown: str | None = None) -> str:
    """Ready-made pieces of which one is shown at a time."""
    names = list(variants)
    first = shown or names[0]
    made = "".join(
        f'<div class="panel" data-variant="{text(name)}"{"" if name == first else " hidden"}>{part}</div>'
        for name, part in variants.items()
    )
    return f'<figure class="chooser">{_buttons(names, first)}{made}</figure>'


def _buttons(names: Sequence[str], shown: str) -> str:
    if len(names) < 2:
        return ""
    made = []
    for name in names:
        pressed = "true" if name == shown else "false"
        label = text(name)
        made.append(f'<button type="button" data-show="{label}" aria-pressed="{pressed}">{label}</button>')
    return f'<div class="choices">{"".join(made)}</div>'


def _class(kind: str) -> str:
    return f' class="{kind}"' if kind else ""
