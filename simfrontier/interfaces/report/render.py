"""Rendering of pages from templates: values in, HTML out, with template filters that format quantities."""

from __future__ import annotations

import importlib.util
import json
import re
import zlib
from base64 import b64encode
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from simfrontier.base.errors import SimfrontierError
from simfrontier.base.units import counted, times
from simfrontier.core.workload import sizes_of
from simfrontier.interfaces.report import phrases
from simfrontier.interfaces.report.phrases import spread_sources, troubles_in_short
from simfrontier.interfaces.report.rows import row_name
from simfrontier.interfaces.report.terms import TERMS, term_key

if TYPE_CHECKING:
    from jinja2 import Environment


_LEVEL = 6  # of gzip
_GZIP = 31  # zlib's number for the gzip format with the largest window; it writes no time of day
_TEMPLATES = Path(__file__).parent / "templates"
_CHARTS_LEVEL = 1  # of gzip: level 6 takes twice the time for a seventh of the size


@cache
def library() -> str:
    """Return plotly.js from the installed package plotly, compressed, without the slow import of the package."""
    package = importlib.util.find_spec("plotly")
    if package is None or package.origin is None:
        raise SimfrontierError("the page needs the Python package plotly, which is not installed; pip install plotly")
    return packed((Path(package.origin).parent / "package_data" / "plotly.min.js").read_bytes(), _LEVEL)


def packed(content: bytes, level: int) -> str:
    """Return bytes compressed with gzip, as text that can be embedded in a page."""
    return b64encode(zlib.compress(content, level, _GZIP)).decode()


def render(template: str, folder: Path | None = None, /, **values: Any) -> Markup:
    """Render a template to HTML, which other templates do not escape again. `folder`: the template folder of an extra,
    whose templates may use those of this package."""
    return as_html(environment(folder).get_template(template).render(values))


def page_of(verb: str, folder: Path | None = None, /, **values: Any) -> Markup:
    """Return the page of a verb: render `pages/VERB.html.j2`, whose blocks are the sections."""
    return render(f"pages/{verb}.html.j2", folder, library=library(), **values)


def said(verb: str, name: str, /, *values: object, folder: Path | None = None) -> list[str]:
    """Return the sentences, without markup, that the macro `name` of `terminal/VERB.txt.j2` renders from the `values`:
    paragraphs are separated by blank lines in the template, and each becomes one line."""
    module = environment(folder).get_template(f"terminal/{verb}.txt.j2").module
    pieces = re.split(r"\n[ \n]*\n", str(getattr(module, name)(*values)))
    return [line for piece in pieces if (line := re.sub(r"[ \n]+", " ", piece).strip())]


def as_html(made: str) -> Markup:
    """Mark a text as HTML, so that templates do not escape it."""
    return Markup(made)


def coded(text: str) -> Markup:
    """Return a text as HTML in which the parts between backticks are code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them has no other
        return Markup.escape(text)
    return Markup("").join(Markup("<code>{}</code>").format(part) if at % 2 else part for at, part in enumerate(parts))


@cache
def environment(folder: Path | None) -> Environment:
    """Return the environment for templates of a folder and of this package: text in HTML is escaped, an undefined name
    is an error."""
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader([_TEMPLATES] if folder is None else [folder, _TEMPLATES]),
        bytecode_cache=FileSystemBytecodeCache(),
        autoescape=lambda name: name is None or not name.endswith(".txt.j2"),
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals["said"] = partial(said, folder=folder)
    made.globals["terms"] = TERMS
    made.globals["asset"] = lambda name: as_html((_TEMPLATES / name).read_text(encoding="utf-8"))
    made.filters |= {name: each for name, each in vars(phrases).items() if name.islower() and callable(each)}
    made.filters |= {
        "bytes": lambda value: phrases.quantity(value, "bytes"),
        "coded": coded,
        "coloured": lambda names, marks: [(name, marks[name].colour) for name in names],
        "count": lambda value: f"{value:,}",
        "counted": counted,
        "packed_json": packed_json,
        "percents": lambda ends: phrases.percent_between(*ends),
        "ratio": lambda value: f"{value:.3f}",
        "row_name": row_name,
        "seconds": lambda value: phrases.quantity(value, "s"),
        "sizes": lambda shape: {name: getattr(shape, name) for name in sizes_of(shape)},
        "spread_sources": spread_sources,
        "term_key": term_key,
        "times": times,
        "to": phrases.between,
        "troubles_in_short": troubles_in_short,
    }
    return made


def packed_json(value: object) -> str:
    """Return a value as compressed JSON with nine digits per number, as text for the script of the page."""
    rounded = json.loads(json.dumps(value, allow_nan=False), parse_float=lambda number: float(f"{float(number):.9g}"))
    text = json.dumps(rounded, separators=(",", ":"), ensure_ascii=False)
    return packed(text.encode(), _CHARTS_LEVEL)
