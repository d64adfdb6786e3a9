"""Emulation of a machine on one computer at a fraction of its rates, to execute simulated schedules for real:
`simfrontier emulate`."""

from pathlib import Path
from typing import Final

TEMPLATES: Final = Path(__file__).parent / "templates"
