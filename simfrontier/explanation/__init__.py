"""Explanations: why a plan is as fast as it is, what would help most, and what makes it differ from another plan."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
