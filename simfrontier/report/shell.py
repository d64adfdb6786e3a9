"""The frame of a page: head, contents, sections, and the script and library that draw its charts, all in one file."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from simfrontier.errors import SimfrontierError
from simfrontier.report.markup import text

_HERE = Path(__file__).parent


def whole_page(
    heading: str, title: str, subtitle: str, contents: Mapping[str, str], sections: Mapping[str, str]
) -> str:
    """The page as text. `contents` has the short name of every section; sections without text are left out."""
    links = "".join(f'<a href="#{name}">{text(contents[name])}</a>' for name, made in sections.items() if made)
    return "\n".join(
        [
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">\n<link rel="icon" href="data:,">',
            f"<title>{text(title)}</title>",
            f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n<header>\n<h1>{text(heading)}</h1>",
            f'<p class="sub">{text(subtitle)}</p>\n<nav>{links}</nav>\n</header>',
            "<noscript><p>The charts need JavaScript; the tables do not.</p></noscript>\n<main>",
            *(made for made in sections.values() if made),
            "</main>",
            f"<script>{_plotly()}</script>\n<script>\n{_asset('page.js')}</script>\n</body>\n</html>\n",
        ]
    )


def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _plotly() -> str:
    """plotly.js out of the installed package, which is found without the cost of importing it."""
    package = importlib.util.find_spec("plotly")
    for folder in (package.submodule_search_locations or ()) if package else ():
        source = Path(folder) / "package_data" / "plotly.min.js"
        if source.is_file():
            return source.read_text(encoding="utf-8")
    raise SimfrontierError(
        "the page needs plotly.min.js of the Python package plotly, which is not installed; pip install plotly"
    )
