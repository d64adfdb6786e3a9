"""Parts of a cross-check for emulated runs: bytes of links, collectives alone, a slowed link, and limits."""

from pathlib import Path
from typing import Final

TEMPLATES: Final = Path(__file__).parents[1] / "templates"
