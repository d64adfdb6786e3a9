"""plotly.js as it stands in pages: compressed by gzip, as text."""

from __future__ import annotations

import importlib.util
import zlib
from base64 import b64encode
from functools import cache
from pathlib import Path

from simfrontier.base.errors import SimfrontierError

_LEVEL = 6  # of gzip
_GZIP = 31  # zlib's number for the gzip format with the largest window; it writes no time of day


@cache
def library() -> str:
    """Return plotly.js of the installed package, compressed; the package itself is slow to import."""
    package = importlib.util.find_spec("plotly")
    if package is None or package.origin is None:
        raise SimfrontierError("the page needs the Python package plotly, which is not installed; pip install plotly")
    return packed((Path(package.origin).parent / "package_data" / "plotly.min.js").read_bytes(), _LEVEL)


def packed(content: bytes, level: int) -> str:
    """Return bytes compressed by gzip, as text for a page."""
    return b64encode(zlib.compress(content, level, _GZIP)).decode()
