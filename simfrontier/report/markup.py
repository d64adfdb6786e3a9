"""The macros of the templates as functions, for sections that Python puts together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from simfrontier.report.render import as_html, macros
from simfrontier.report.theme import Figure as Figure


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
    return f"<p{macros().classed(kind)}>{text(words)}</p>"


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """The macro `table` of ready-made cells."""
    return str(macros().table(_made(head), map(_made, rows), kind))


def keyed(colour: str, name: str) -> str:
    """The macro `keyed`: a name behind the square of its colour."""
    return str(macros().keyed(colour, name))


def cards(entries: Iterable[tuple[str, str, str]]) -> str:
    """Key numbers: (value, what it is, remark)."""
    return '<div class="cards">' + "".join(macros().card(*entry) for entry in entries) + "</div>"


def items(entries: Iterable[str], kind: str = "") -> str:
    """A list of ready-made entries; nothing where there are none."""
    return str(macros().items(_made(entries), kind))


def plot(name: str, figures: Mapping[str, Figure], label: str, shown: str | None = None) -> str:
    """The macro `chart`: a chart with a button for each of its variants."""
    return str(macros().chart(name, figures, label, shown))


def panels(variants: Mapping[str, str], shown: str | None = None) -> str:
    """The macro `panels`: ready-made pieces of which one is shown at a time."""
    return str(macros().panels(dict(zip(variants, _made(variants.values()), strict=True)), shown))


def _made(pieces: Iterable[str]) -> list[str]:
    return [as_html(piece) for piece in pieces]
