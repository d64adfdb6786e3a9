"""The live page: sliders and switches for the unknown settings of a scenario; all charts are updated when they move."""

from simfrontier.interfaces.live.server import serve as serve
