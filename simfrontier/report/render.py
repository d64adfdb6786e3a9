"""Pages from templates: values in, HTML out, with the filters that write quantities."""

from __future__ import annotations

import importlib.util
import json
import zlib
from base64 import b64encode
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.errors import SimfrontierError
from simfrontier.report import phrases

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"
_LEVEL = 1  # of gzip: level 6 takes three times the time for a tenth of the size
_GZIP = 31  # zlib's number for the gzip format with the largest window; it writes no time of day


def render(template: str, /, **values: Any) -> Markup:
    """A template of this package filled in, as HTML that later templates do not escape again."""
    return as_html(environment().get_template(template).render(values))


def as_html(made: str) -> Markup:
    """Text that is HTML already, which templates do not escape."""
    from markupsafe import Markup

    return Markup(made)


def macros() -> Any:
    """The macros that sections share, as functions that give HTML."""
    return environment().get_template("macros.html.j2").module


def whole_page(
    heading: str, title: str, subtitle: str, contents: Mapping[str, str], sections: Mapping[str, str]
) -> str:
    """A page. `contents`: the short name of every section; `sections`: their HTML, left out where it is empty."""
    made = {name: as_html(section) for name, section in sections.items() if section}
    return render(
        "page.html.j2",
        heading=heading,
        title=title,
        subtitle=subtitle,
        contents=contents,
        sections=made,
        library=_library(),
    )


@cache
def environment() -> Environment:
    """Templates of this package: text is escaped, a name that is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals["asset"] = lambda name: as_html((_TEMPLATES / name).read_text(encoding="utf-8"))
    made.filters |= {
        "binary": phrases.binary,
        "bytes": lambda value: phrases.quantity(value, "bytes"),
        "count": lambda value: f"{value:,}",
        "exactly": phrases.exactly,
        "in_samples": phrases.in_samples,
        "in_words": phrases.in_words,
        "listed": phrases.listed,
        "number": phrases.number,
        "packed_json": packed_json,
        "percent": phrases.percent,
        "quantity": phrases.quantity,
        "ratio": lambda value: f"{value:.3f}",
        "seconds": lambda value: phrases.quantity(value, "s"),
        "signed": phrases.signed,
    }
    return made


def packed_json(value: object) -> str:
    """A value as JSON, compressed, as text for the script of the page."""
    return _packed(json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode())


def _packed(content: bytes) -> str:
    return b64encode(zlib.compress(content, _LEVEL, _GZIP)).decode()


@cache
def _library() -> str:
    """plotly.js out of the installed package, which is found without the cost of importing it; compressed."""
    package = importlib.util.find_spec("plotly")
    for folder in (package.submodule_search_locations or ()) if package else ():
        source = Path(folder) / "package_data" / "plotly.min.js"
        if source.is_file():
            return _packed(source.read_bytes())
    raise SimfrontierError(
        "the page needs plotly.min.js of the Python package plotly, which is not installed; pip install plotly"
    )
