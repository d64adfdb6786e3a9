"""What a page shows: its words, tables, drawings, choices and charts, whatever its HTML is and however it is packed."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from html.parser import HTMLParser
from typing import Any

_DRAWN = ("line", "circle", "rect", "polyline")


class ShownPage(HTMLParser):
    """A page as its reader sees it. `tables`: the words of each cell; `charts`: figures by variant, by the chart's id;
    `drawn`: shapes of drawings with their attributes; `labels`: words that are shown on pointing or read out."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.tables: list[list[list[str]]] = []
        self.charts: dict[str, Any] = {}
        self.drawn: list[tuple[str, list[tuple[str, str | None]]]] = []
        self.labels: list[str] = []
        self.buttons: list[tuple[str, str]] = []
        self._scripts: list[str] = []  # ids of the scripts and styles that are open
        self._cell: list[str] | None = None
        self.feed(source)

    def shown(self) -> dict[str, Any]:
        """All of it, for a comparison."""
        return {
            "words": re.sub(r"\s+([.,;:)])", r"\1", " ".join(self.words)).split(),
            "tables": self.tables,
            "charts": self.charts,
            "drawn": self.drawn,
            "labels": self.labels,
            "buttons": self.buttons,
        }

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.labels += [words for name in ("aria-label", "title") if (words := given.get(name))]
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self._cell = []
        elif tag in _DRAWN:
            self.drawn.append((tag, sorted(attrs)))
        elif tag == "button":
            self.buttons.append((given.get("data-show") or "", given.get("aria-pressed") or ""))
        elif tag in ("script", "style", "noscript"):
            self._scripts.append(given.get("id") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th") and self._cell is not None:
            self.tables[-1][-1].append(" ".join("".join(self._cell).split()))
            self._cell = None
        elif tag in ("script", "style", "noscript"):
            self._scripts.pop()

    def handle_data(self, data: str) -> None:
        if self._scripts:
            if self._scripts[-1] not in ("", "library"):
                self.charts[self._scripts[-1]] = _figures(data)
            return
        if self._cell is not None:
            self._cell.append(data)
        self.words.append(data)


def _figures(data: str) -> Any:
    """The figures of a chart: JSON, as it is or as gzip in base 64."""
    return json.loads(data if data.lstrip().startswith("{") else gzip.decompress(b64decode(data)))
