"""What an emulated run adds to a cross-check: bytes of links, collectives alone, a slowed link, and limits."""

from pathlib import Path
from typing import Final

TEMPLATES: Final = Path(__file__).parents[1] / "templates"
