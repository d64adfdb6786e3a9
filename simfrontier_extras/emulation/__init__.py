"""A machine laid out on one computer at a part of its rates, to run on it what is simulated: `simfrontier emulate`."""

from pathlib import Path
from typing import Final

TEMPLATES: Final = Path(__file__).parent / "templates"
