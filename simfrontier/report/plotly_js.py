"""plotly.js as it stands in pages: compressed by gzip, as text."""

from __future__ import annotations

import importlib.util
import re
import zlib
from base64 import b64encode
from functools import cache
from pathlib import Path

from simfrontier.errors import SimfrontierError

_LEVEL = 6  # of gzip
# plotly.js is one function, which V8 parses twice, first to skip it, unless it is in parentheses.
_FUNCTION = re.compile(rb"(: this, )(\(\) => \{.*\})(\)\);?\s*)", re.DOTALL)
_GZIP = 31  # zlib's number for the gzip format with the largest window; it writes no time of day


@cache
def library() -> str:
    """Return plotly.js of the installed package, compressed."""
    return packed(_FUNCTION.sub(rb"\1(\2)\3", _source().read_bytes(), count=1), _LEVEL)


def packed(content: bytes, level: int) -> str:
    """Return bytes compressed by gzip, as text for a page."""
    return b64encode(zlib.compress(content, level, _GZIP)).decode()


def _source() -> Path:
    """Return the file of the installed package, which is found without the cost of importing it."""
    package = importlib.util.find_spec("plotly")
    if package is None or package.origin is None:
        raise SimfrontierError("the page needs the Python package plotly, which is not installed; pip install plotly")
    return Path(package.origin).parent / "package_data" / "plotly.min.js"
