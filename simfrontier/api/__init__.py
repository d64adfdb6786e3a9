"""The way in from Python: scenarios, one step of a plan, comparisons, searches, explanations, validation."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
