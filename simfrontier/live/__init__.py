"""The live page: sliders and switches for what is unknown of a scenario, and every figure anew as they move."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
