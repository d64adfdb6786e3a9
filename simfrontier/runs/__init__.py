"""Whole training runs that people published: read by rules as scenarios, predicted, and held against what they took."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
