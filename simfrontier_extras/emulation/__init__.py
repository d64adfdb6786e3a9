"""Emulation of a machine on one computer at a fraction of its rates, to execute what is simulated: `simfrontier
emulate`."""

from pathlib import Path
from typing import Final

TEMPLATES: Final = Path(__file__).parent / "templates"
