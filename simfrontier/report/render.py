"""Pages from templates: values in, HTML out, with the filters that write quantities."""

from __future__ import annotations

import importlib.util
import json
import os
import zlib
from base64 import b64encode
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.report import phrases
from simfrontier.wholefile import write_whole

if TYPE_CHECKING:
    from jinja2 import Environment, FileSystemBytecodeCache
    from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"
_CHARTS_LEVEL = 1  # of gzip: level 6 takes twice the time for a seventh of the size
_LIBRARY_LEVEL = 6  # compressed once
_GZIP = 31  # zlib's number for the gzip format with the largest window; it writes no time of day


def render(template: str, /, **values: Any) -> Markup:
    """A template of this package filled in, as HTML that later templates do not escape again."""
    return as_html(environment().get_template(template).render(values))


def render_from(folder: Path, template: str, /, **values: Any) -> Markup:
    """The same of a template of an extra's own folder, which may use those of this package."""
    return as_html(environment(folder).get_template(template).render(values))


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
def environment(folder: Path | None = None) -> Environment:
    """Templates of a folder and of this package: text is escaped, a name that is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader([_TEMPLATES] if folder is None else [folder, _TEMPLATES]),
        bytecode_cache=_compiled(),
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


def _compiled() -> FileSystemBytecodeCache | None:
    """Compiled templates, kept in the user's cache folder: to compile them takes longer than to fill them in."""
    from jinja2 import FileSystemBytecodeCache

    folder = cache_folder() / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None


def packed_json(value: object) -> str:
    """A value as JSON, compressed, as text for the script of the page."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return _packed(text.encode(), _CHARTS_LEVEL)


def _packed(content: bytes, level: int) -> str:
    return b64encode(zlib.compress(content, level, _GZIP)).decode()


@cache
def _library() -> str:
    """plotly.js, compressed: kept in the user's cache folder, because compressing it takes longer than all the rest of
    a page. Where that folder cannot be written it is compressed each time."""
    source = _plotly_js()
    status = source.stat()
    kept = cache_folder() / f"plotly-{status.st_size}-{status.st_mtime_ns}.gz.txt"
    with suppress(OSError):
        return kept.read_text(encoding="ascii")
    packed = _packed(source.read_bytes(), _LIBRARY_LEVEL)
    with suppress(OSError, InputError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, packed)
    return packed


def cache_folder() -> Path:
    """Where this user's programs keep what they can make again. Raises no error where there is no home."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / ".cache"
    return home / "simfrontier"


def _plotly_js() -> Path:
    """plotly.js of the installed package, which is found without the cost of importing it."""
    package = importlib.util.find_spec("plotly")
    for folder in (package.submodule_search_locations or ()) if package else ():
        source = Path(folder) / "package_data" / "plotly.min.js"
        if source.is_file():
            return source
    raise SimfrontierError(
        "the page needs plotly.min.js of the Python package plotly, which is not installed; pip install plotly"
    )
