"""Pages from templates: values in, HTML out, with the filters that write quantities."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import zlib
from base64 import b64encode
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.report import phrases
from simfrontier.wholefile import write_whole
from simfrontier.workload import sizes_of

if TYPE_CHECKING:
    from jinja2 import Environment, FileSystemBytecodeCache
    from markupsafe import Markup

_TEMPLATES = Path(__file__).parent / "templates"
_CHARTS_LEVEL = 1  # of gzip: level 6 takes twice the time for a seventh of the size
_LIBRARY_LEVEL = 6  # compressed once
# plotly.js is one function, which V8 parses twice, first to skip it, unless it is in parentheses.
_FUNCTION = re.compile(rb"(: this, )(\(\) => \{.*\})(\)\);?\s*)", re.DOTALL)
_GZIP = 31  # zlib's number for the gzip format with the largest window; it writes no time of day


def render(template: str, folder: Path | None = None, /, **values: Any) -> Markup:
    """A template filled in, as HTML that later templates do not escape again. `folder`: of an extra's templates, which
    may use those of this package."""
    return as_html(environment(folder).get_template(template).render(values))


def page_of(verb: str, folder: Path | None = None, /, **values: Any) -> Markup:
    """The page of a verb: `pages/VERB.html.j2` filled in, whose blocks are the sections."""
    return render(f"pages/{verb}.html.j2", folder, library=_library(), **values)


def said(verb: str, name: str, /, *values: object, folder: Path | None = None) -> list[str]:
    """The sentences for people, without markup, that the macro `name` of `terminal/VERB.txt.j2` makes of findings: the
    pieces that blank lines part, each on one line."""
    module = environment(folder).get_template(f"terminal/{verb}.txt.j2").module
    pieces = re.split(r"\n[ \n]*\n", str(getattr(module, name)(*values)))
    return [line for piece in pieces if (line := re.sub(r"[ \n]+", " ", piece).strip())]


def as_html(made: str) -> Markup:
    """Text that is HTML already, which templates do not escape."""
    from markupsafe import Markup

    return Markup(made)


@cache
def environment(folder: Path | None) -> Environment:
    """Templates of a folder and of this package: text in HTML is escaped, a name that is not given is an error."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    made = Environment(
        loader=FileSystemLoader([_TEMPLATES] if folder is None else [folder, _TEMPLATES]),
        bytecode_cache=_compiled(),
        autoescape=lambda name: name is None or not name.endswith(".txt.j2"),
        auto_reload=False,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
    )
    made.globals["said"] = partial(said, folder=folder)
    made.globals["asset"] = lambda name: as_html((_TEMPLATES / name).read_text(encoding="utf-8"))
    made.filters |= {
        "sizes": lambda shape: {name: getattr(shape, name) for name in sizes_of(shape)},
        "as_percent": phrases.as_percent,
        "binary": phrases.binary,
        "by_value": phrases.by_value,
        "bytes": lambda value: phrases.quantity(value, "bytes"),
        "count": lambda value: f"{value:,}",
        "distance": phrases.distance,
        "exactly": phrases.exactly,
        "file_name": lambda path: Path(path).name,
        "fitted_words": phrases.fitted_words,
        "counted": phrases.counted,
        "in_samples": phrases.in_samples,
        "in_words": phrases.in_words,
        "listed": phrases.listed,
        "number": phrases.number,
        "packed_json": packed_json,
        "percent": phrases.percent,
        "percents": lambda ends: phrases.percent_between(*ends),
        "quantity": phrases.quantity,
        "ratio": lambda value: f"{value:.3f}",
        "seconds": lambda value: phrases.quantity(value, "s"),
        "setting": phrases.setting,
        "percent_up": phrases.percent_up,
        "options": phrases.options,
        "three_digits": phrases.three_digits,
        "to": phrases.between,
        "signed": phrases.signed,
        "signed_seconds": phrases.signed_seconds,
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
    kept = cache_folder() / f"plotly-js-{status.st_size}-{status.st_mtime_ns}.gz.txt"
    with suppress(OSError):
        return kept.read_text(encoding="ascii")
    packed = _packed(_FUNCTION.sub(rb"\1(\2)\3", source.read_bytes(), count=1), _LIBRARY_LEVEL)
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
