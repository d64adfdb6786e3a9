"""The live page: sliders and switches for what is unknown of a scenario, and every figure anew as they move."""

from simfrontier.interfaces.live.server import serve as serve
