"""What all pages share, made once and kept: plotly.js compressed, and compiled templates."""

from __future__ import annotations

import importlib.util
import os
import re
import sys
import zlib
from base64 import b64encode
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from simfrontier.errors import InputError, SimfrontierError
from simfrontier.wholefile import write_whole

if TYPE_CHECKING:
    from jinja2 import FileSystemBytecodeCache

_LIBRARY_LEVEL = 6  # of gzip
# plotly.js is one function, which V8 parses twice, first to skip it, unless it is in parentheses.
_FUNCTION = re.compile(rb"(: this, )(\(\) => \{.*\})(\)\);?\s*)", re.DOTALL)
_GZIP = 31  # zlib's number for the gzip format with the largest window; it writes no time of day


def kept_folder() -> Path:
    """Where these are kept: in the virtual environment, where it may be written, or else in the user's cache folder.
    Raises no error where there is no home."""
    if sys.prefix != sys.base_prefix and os.access(sys.prefix, os.W_OK):
        return Path(sys.prefix) / "var" / "cache" / "simfrontier"
    given = os.environ.get("XDG_CACHE_HOME", "")
    home = Path(given) if os.path.isabs(given) else Path(os.path.expanduser("~")) / ".cache"
    return home / "simfrontier"


@cache
def library() -> str:
    """plotly.js, compressed, which takes longer than all the rest of a page; each time anew where nothing can be
    kept."""
    source = _plotly_js()
    status = source.stat()
    kept = kept_folder() / f"plotly-js-{status.st_size}-{status.st_mtime_ns}.gz.txt"
    with suppress(OSError):
        return kept.read_text(encoding="ascii")
    text = packed(_FUNCTION.sub(rb"\1(\2)\3", source.read_bytes(), count=1), _LIBRARY_LEVEL)
    with suppress(OSError, InputError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, text)
    return text


def compiled_templates() -> FileSystemBytecodeCache | None:
    """Where templates are kept compiled, which takes longer than to fill them in; None where nothing can be kept."""
    from jinja2 import FileSystemBytecodeCache

    folder = kept_folder() / "templates"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return FileSystemBytecodeCache(str(folder)) if os.access(folder, os.W_OK) else None


def packed(content: bytes, level: int) -> str:
    """Bytes compressed by gzip, as text for a page."""
    return b64encode(zlib.compress(content, level, _GZIP)).decode()


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
